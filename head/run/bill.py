"""What a run costs so far: what its nodes report of its actors, and what its learners had."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from artos.protocol.usage import Usage, added
from artos.specs.members import ACTORS, LEARNER
from head.run.times import Times


class DeviceSeconds(NamedTuple):
    """The seconds for which a learner had its device, used it, and waited for it."""

    held: float
    used: float
    waited: float


def device_seconds(times: Times, learner: str, *, leases: bool, idle: float = 0.0) -> DeviceSeconds:
    """What a learner had of its device.

    One that does not lease it has it from its first invocation to its last answer. It used what it
    worked, but for the seconds that the device was ``idle`` meanwhile.
    """
    spent = times.of(learner)
    waited, held = spent.seconds.get("wait_for_device", 0.0), spent.work if leases else spent.wall
    return DeviceSeconds(held, max(0.0, spent.work - idle), waited)


def bill_of(
    actors: Usage, times: Times, leases: Collection[str] = (),
    idle: Mapping[str, float] = MappingProxyType({}), learners: Collection[str] = (LEARNER,),
) -> Usage:  # fmt: skip
    """The usage of a run: ``actors`` from their nodes, the share of learners from their own times.

    Those that lease their devices are in ``leases``; ``idle`` are seconds by learner.
    """
    room = times.of(ACTORS).seconds.get("wait_for_room", 0.0)
    each = [
        device_seconds(times, name, leases=name in leases, idle=idle.get(name, 0.0))
        for name in learners
    ]
    held, used, waited = map(sum, zip(*each, strict=True))
    return msgspec.structs.replace(
        actors,
        device_seconds_held=held,
        device_seconds_used=used,
        waits=added([actors.waits, {"room": room, "device": waited}]),
    )


def of_actors(bill: Usage) -> Usage:
    """A bill without what ``bill_of`` adds from the times of members."""
    waits = {what: each for what, each in bill.waits.items() if what not in ("room", "device")}
    return msgspec.structs.replace(
        bill, device_seconds_held=0.0, device_seconds_used=0.0, waits=waits
    )
