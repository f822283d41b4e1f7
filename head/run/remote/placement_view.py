"""Where the actors of a run are, and what those wait for that are not at work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from artos.buffer.board import LEARNER, actor_member
from head.run.remote.actor_placement import Posting
from head.run.remote.node_usage import NodeBooks

_SILENT = 3.0
"""Seconds without a sign of life after which a node's silence is why an actor does not answer."""


class Whereabouts:
    """Answers questions about actors' places.

    ``silence`` is for how long a node was not heard, ``origin`` where an actor's image comes from
    that is on its way.
    """

    def __init__(
        self,
        postings: Mapping[int, Posting],
        nodes: NodeBooks,
        silence: Callable[[str], float],
        origin: Callable[[int], str],
    ) -> None:
        self._postings, self._nodes = postings, nodes
        self._silence, self._origin = silence, origin

    def held_back(self, member: int) -> bool:
        """Whether its calls wait for something that is not its doing: a place, a slot, a link."""
        if member == LEARNER:
            return False
        posting = self._postings[member - 1]
        if not posting.there or (posting.waiting and not posting.given):
            return True
        waits = self._nodes.waits_for_slot(posting.node, member)
        return waits or self._silence(posting.node) > _SILENT

    def homeless(self, member: int) -> str:
        """What an actor that lives nowhere waits for, in words; "" for one that has its place."""
        if member == LEARNER:
            return ""
        posting = self._postings[member - 1]
        if posting.there:
            origin = self._origin(posting.actor)
            return f"an image from {origin}" if origin else ""
        if not posting.node:
            return "a node with a free slot"
        if posting.node not in self._nodes:
            return f"the site on {posting.node}"
        return "the replay buffer"

    def places(self) -> dict[str, list[int]]:
        """Actors by the node where they live."""
        found: dict[str, list[int]] = {node: [] for node in self._nodes.open}
        for posting in self._postings.values():
            if posting.there and posting.node in found:
                found[posting.node].append(posting.actor)
        return found

    def silent(self) -> dict[str, float]:
        """Nodes with a site that were not heard for a while, and for how many seconds."""
        silence = {node: self._silence(node) for node in self._nodes.open}
        return {node: seconds for node, seconds in silence.items() if seconds > _SILENT}

    def waits(self, actors: Iterable[int]) -> str:
        """What these actors, or all, wait for, in words; "" if nothing keeps them from work."""
        homeless: dict[str, list[str]] = {}
        for actor in actors:
            if why := self.homeless(actor_member(actor)):
                homeless.setdefault(why, []).append(str(actor))
        words = [f"actors {', '.join(who)} wait for {why}" for why, who in homeless.items()]
        silent = self.silent().items()
        return "; ".join(
            words + [f"node {node} was not heard for {seconds:.0f} s" for node, seconds in silent]
        )
