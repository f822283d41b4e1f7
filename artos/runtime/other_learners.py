"""What an actor reads of learners beside the one whose weights it acts with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.binding import Binding, Held
from artos.buffer.model_block import ModelBlock
from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.runs.plan import Plan, Site
from artos.runtime.taping import Tape
from artos.specs.bound import Bound
from artos.specs.keys import MODEL_PARAM, OTHER_VERSIONS, PARAMS, READS, objects_of
from artos.specs.members import LEARNER


class OtherLearners:
    """Binds the newest version of each of them, with past ones, and notes in rows which these were.

    What is read of one learner is all of one version, in the same slot of its model block.
    """

    def __init__(
        self, plan: Plan, reads: Sequence[str], regions: Mapping[str, ObjectRegion]
    ) -> None:
        self._reads = {name: objects_of(reads, name, plan.learner) for name in regions}
        self._bindings = {name: Binding(region) for name, region in regions.items()}

    def bind(self, reader: int) -> None:
        """Bind the newest versions; they stay as they are until this is called again."""
        for binding in self._bindings.values():
            binding.renew(reader)

    @property
    def versions(self) -> dict[str, int]:
        """The version of each learner that is bound."""
        return {name: slot.version for name, slot in self._newest()}

    @property
    def pasts(self) -> dict[str, tuple[Bound, ...]]:
        """The past versions of each learner of which some are kept."""
        kept = ((n, each) for n, each in self._bindings.items() if each.region.spec.history)
        return {name: binding.pasts for name, binding in kept}

    @property
    def objects(self) -> dict[str, NDArray[Any]]:
        """What is read by the names that actors have for it; weights may be in shared memory."""
        return {
            f"{name}/{each}": slot.arrays[
                PARAMS if each == MODEL_PARAM else f"{READS}{name}/{each}"
            ]
            for name, slot in self._newest()
            for each in self._reads[name]
        }

    def note(self, block: ActorBlock, start: int, stop: int) -> None:
        """Write into rows that are not committed yet by which versions they were made."""
        for name, slot in self._newest():
            for versions in block.views(OTHER_VERSIONS + name, start, stop):
                versions[...] = slot.version

    def snapshot(self) -> dict[str, Held]:
        """Copies of what is bound."""
        return {name: binding.snapshot() for name, binding in self._bindings.items()}

    def go_on(self, found: Mapping[str, Held]) -> None:
        """Bind such copies."""
        for name, held in found.items():
            self._bindings[name].go_on(held)

    def _newest(self) -> list[tuple[str, ObjectSlot]]:
        return [(name, each.slots[0]) for name, each in self._bindings.items() if each.slots]


class PeerStates:
    """Copies the newest versions of other learners of a run, for one of them."""

    def __init__(self, plan: Plan, site: Site, tape: Tape) -> None:
        self._tape = tape
        learners = [m for m in site.members if site.members.role(m).kind == LEARNER]
        own = site.member.role
        self._regions = {
            role: ModelBlock.attach(site.model_of(role))[MODEL_PARAM]
            for role in dict.fromkeys(member.role for member in learners)
            if role != own
        }
        self._reader = first_peer(plan) + (learners.index(site.member) if self._regions else 0)
        for region in self._regions.values():
            region.unpin(self._reader)  # a process of the same name may have been killed

    def __call__(self, name: str) -> dict[str, NDArray[Any]]:
        """All arrays of a version, by name; none before the first version.

        Raises:
            KeyError: there is no other learner of that name.
        """
        return self._tape.peer(name, partial(self._newest, self._regions[name]))

    def _newest(self, region: ObjectRegion) -> tuple[int, dict[str, NDArray[Any]]]:
        if region.version < 0:
            return -1, {}
        slot = region.pin(self._reader)
        try:
            return slot.version, {each: array.copy() for each, array in slot.arrays.items()}
        finally:
            region.unpin(self._reader)


def first_peer(plan: Plan) -> int:
    """The number among the readers of a model block that the first of the learners has."""
    return plan.actors + 1 + len(plan.servers)


def other_learners(plan: Plan, site: Site, reads: Sequence[str]) -> OtherLearners:
    """Those of which the actors of ``plan`` read something, in the memory that ``site`` names."""
    regions = {
        name: ModelBlock.attach(site.model_of(name))[MODEL_PARAM] for name in plan.read_learners
    }
    return OtherLearners(plan, reads, regions)
