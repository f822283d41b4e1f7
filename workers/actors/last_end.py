"""The end of actors that wait as images: they are brought back to close what they have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice

from artos.clock import Deadline
from artos.errors import ArtosError
from workers.actors.actor_record import ActorRecord, State
from workers.actors.idle_tiers import IdleTiers
from workers.actors.spawners.spawner import Place
from workers.host.slots import Slot

_log = logging.getLogger(__name__)


def end_images(
    records: Iterable[ActorRecord],
    tiers: IdleTiers,
    place: Place,
    cpus: Sequence[Slot],
    deadline: Deadline,
    undisturbed: Callable[[], AbstractContextManager[None]],
) -> None:
    """Let actors that are images, or become or were such, end by themselves until ``deadline``.

    They have been told to stop. Only they can close their environments, and so remove the files and
    processes of those. The records keep their processes, which the caller ends in any case.
    """
    for record in records:
        if record.shot is not None:
            # CRIU may be about to end the process: to call the dump off then is to lose the actor.
            with suppress(ArtosError):
                record.shot.operation.wait(deadline.left)
    with undisturbed():
        images = [record for record in records if _is_image(record, tiers, place)]
    left, waiting = len(images), iter(images)
    while not deadline.passed and (batch := [*islice(waiting, len(cpus))]):
        with undisturbed():
            for record, slot in zip(batch, cpus, strict=False):
                if record.state is State.CHECKPOINTED:
                    tiers.restore(record, slot, place.log_of(record.member))
        for record in batch:
            log = place.path_of(record.member)
            if tiers.bring_back(record, log, deadline.left) and record.child is not None:
                left -= record.child.ends_within(deadline.left)
    if left and deadline.seconds:
        _log.warning(
            "%d actors that waited as images ended without closing their environments: files that "
            "these made outside the run may be left",
            left,
        )


def _is_image(record: ActorRecord, tiers: IdleTiers, place: Place) -> bool:
    if record.state is State.DUMPING:
        # If the dump is over, no process is left.
        tiers.finish_if_over(record, place.path_of(record.member))
    return record.state in (State.CHECKPOINTED, State.RESTORING)
