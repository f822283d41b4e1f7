"""Where the actors of a run are, and what actors that are not at work wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from artos.specs.members import ACTORS, Member
from head.run.coordination.ports import NO_ROOM
from head.run.remote.actor_placement import ActorPlacement
from head.run.remote.node_usage import NodeUsage

_SILENT = 3.0
"""Seconds of silence after which a node is the reason why its actors do not answer."""
_SHOWN = 6
"""Actors that are named; of more, how many."""


class PlacementView:
    """Answers questions about the places of ``actors`` (by member).

    ``silence`` returns the seconds since a node was last heard, ``origin`` the node that the image
    of an actor on the move comes from.
    """

    def __init__(
        self,
        actors: Mapping[Member, ActorPlacement],
        nodes: NodeUsage,
        silence: Callable[[str], float],
        origin: Callable[[int], str],
    ) -> None:
        self._actors, self._nodes = actors, nodes
        self._silence, self._origin = silence, origin

    def waits_for_slot(self, member: Member) -> bool:
        """Whether the member's calls wait for something it cannot help: a place, a slot, a link."""
        if (actor := self._actors.get(member)) is None:  # one that lives next to the run process
            return False
        if not actor.is_placed or (actor.waiting and not actor.given):
            return True
        waits = self._nodes.waits_for_slot(actor.node, member)
        return waits or self._silence(actor.node) > _SILENT

    def unplaced(self, member: Member) -> str:
        """What an actor without a place waits for; "" for an actor that has its place."""
        if (actor := self._actors.get(member)) is None:
            return ""
        if actor.is_placed:
            origin = self._origin(actor.number)
            return f"an image from {origin}" if origin else ""
        if not actor.node:
            return NO_ROOM
        if not self._nodes.is_warm(actor.node):
            return f"the executor on {actor.node}"
        return "the replay buffer"

    def places(self) -> dict[str, list[int]]:
        """The actors that live on each node."""
        found: dict[str, list[int]] = {node: [] for node in self._nodes.open}
        for actor in self._actors.values():
            if actor.is_placed and actor.node in found:
                found[actor.node].append(actor.number)
        return found

    def silent(self) -> dict[str, float]:
        """Seconds of silence of each node with an executor that was not heard for a while."""
        silence = {node: self._silence(node) for node in self._nodes.open}
        return {node: seconds for node, seconds in silence.items() if seconds > _SILENT}

    def waits(self, actors: Iterable[int]) -> str:
        """What these actors wait for, and which nodes are silent; "" if neither."""
        unplaced: dict[str, list[str]] = {}
        for actor in actors:
            if why := self.unplaced(Member(ACTORS, actor)):
                unplaced.setdefault(why, []).append(str(actor))
        words = [f"{why} (actors {_some(who)})" for why, who in unplaced.items()]
        silent = self.silent().items()
        return "; ".join(
            words + [f"node {node}, not heard for {seconds:.0f} s" for node, seconds in silent]
        )


def _some(who: Sequence[str]) -> str:
    more = [f"{len(who) - _SHOWN} more"] if len(who) > _SHOWN + 1 else []
    return ", ".join([*(who[:_SHOWN] if more else who), *more])
