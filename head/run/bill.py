"""What a run costs so far: what its nodes report of its actors, and what its learners had."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from artos.protocol.usage import Usage, added
from artos.specs.members import ACTORS, LEARNER
from head.run.times import Times


def bill_of(
    actors: Usage, times: Times, *, leases_device: bool, idle: float = 0.0,
    learners: Sequence[str] = (LEARNER,),
) -> Usage:  # fmt: skip
    """The usage of a run: ``actors`` from their nodes, the share of learners from their own times.

    A learner that does not lease its device has it from its first invocation to its last answer.
    It used what it worked, but for the seconds that the device was ``idle`` meanwhile.
    """
    each, room = [*map(times.of, learners)], times.of(ACTORS).seconds.get("wait_for_room", 0.0)
    waited = sum(learner.seconds.get("wait_for_device", 0.0) for learner in each)
    work = sum(learner.work for learner in each)
    return msgspec.structs.replace(
        actors,
        device_seconds_held=work if leases_device else sum(learner.wall for learner in each),
        device_seconds_used=max(0.0, work - idle),
        waits=added([actors.waits, {"room": room, "device": waited}]),
    )
