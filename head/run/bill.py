"""What a run costs so far: what its nodes report of its actors, and what its learner had."""

from __future__ import annotations

import msgspec

from artos.protocol.usage import Usage, added
from artos.specs.members import ACTORS, LEARNER
from head.run.times import Times


def bill_of(actors: Usage, times: Times, *, leases_device: bool, idle: float = 0.0) -> Usage:
    """The usage of a run: ``actors`` from their nodes, the learner's share from its own times.

    A learner that does not lease its device has it from its first invocation to its last answer.
    It used what it worked, but for the seconds that the device was ``idle`` meanwhile.
    """
    learner, room = times.of(LEARNER), times.of(ACTORS).seconds.get("wait_for_room", 0.0)
    waited = learner.seconds.get("wait_for_device", 0.0)
    return msgspec.structs.replace(
        actors,
        device_seconds_held=learner.work if leases_device else learner.wall,
        device_seconds_used=max(0.0, learner.work - idle),
        waits=added([actors.waits, {"room": room, "device": waited}]),
    )
