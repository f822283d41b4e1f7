"""When actors leave for another node: once they can be at work there, if there is time for that."""

from __future__ import annotations

import math

from artos.clock import Clock
from head.run.remote.actor_placement import ActorPlacement
from head.run.remote.memories import Memories
from head.run.remote.node_usage import NodeUsage

_HURRY_SECONDS = 2.0
"""How long actors play on whose node may be gone soon. Most notices come ten seconds before."""


class Departures:
    """Actors that are to leave play on until the other node has an executor and what they share."""

    def __init__(self, nodes: NodeUsage, memories: Memories, clock: Clock) -> None:
        self._nodes, self._memories, self._clock = nodes, memories, clock
        self._waiting: dict[ActorPlacement, float] = {}

    def place(self, actor: ActorPlacement, target: str, *, hurry: bool) -> None:
        """The actor is to live on ``target``, "" for none; it leaves now, or plays on for now."""
        if target in ("", actor.node) or actor.is_leaving:
            self._leave(actor, target)
            return
        now = self._clock.now()
        until = self._waiting.get(actor, math.inf) if actor.awaits else math.inf
        until = min(until, now + _HURRY_SECONDS) if hurry else until
        self._waiting[actor] = until
        actor.target, actor.awaits = actor.node, target
        if now >= until or self._is_ready(actor, hurry=hurry):
            self._leave(actor, target)

    def due(self) -> list[ActorPlacement]:
        """Actors that leave now, having waited; each is returned once."""
        left = []
        for actor, until in tuple(self._waiting.items()):
            if not (actor.awaits and actor.is_placed):
                del self._waiting[actor]
            elif self._clock.now() >= until or self._is_ready(actor, hurry=until < math.inf):
                self._leave(actor, actor.awaits)
                left.append(actor)
        return left

    def _leave(self, actor: ActorPlacement, target: str) -> None:
        self._waiting.pop(actor, None)
        actor.target, actor.awaits = target, ""

    def _is_ready(self, actor: ActorPlacement, *, hurry: bool) -> bool:
        there = self._nodes.is_warm(actor.awaits)
        if not (actor.has_process and actor.wanted):
            return there or hurry
        shares = actor.memory or not actor.came
        if shares and self._nodes.images_fit(actor.node, actor.awaits):
            number = actor.memory
            up = actor.awaits in self._nodes
            return self._memories.bring(actor.node, actor.awaits, number, up=up) and there
        return there

    def __repr__(self) -> str:
        return f"<Departures {len(self._waiting)} wait>"
