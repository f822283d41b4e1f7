"""How many workers runs can use. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from math import ceil
from operator import attrgetter

from artos.protocol.views import ClusterView, NodeView

_OF_NODES = attrgetter("name", "alive", "awaited", "leaves", "slots", "labels", "shm_bytes")
_OF_RUNS = attrgetter(
    "wants", "where", "registered", "lacks_memory", "executor_bytes", "actor_bytes"
)


def nodes_wanted(view: ClusterView) -> int:
    """Workers like those that there are, on which all actors of all runs have slots and memory."""
    nodes = [node for node in view.nodes if node.alive and not node.leaves]
    more = more_for_memory(view, nodes)
    return max(nodes_for(slots_wanted(view), nodes), len(nodes) + more if more else 0)


def decisive(view: ClusterView) -> object:
    """All of a view by which it is decided how many workers there should be, to be compared."""
    return [*map(_OF_NODES, view.nodes)], [*map(_OF_RUNS, view.runs)]


def slots_wanted(view: ClusterView, labels: Collection[str] = ()) -> int:
    """Slots for all actors of living and waiting runs that workers here can suit.

    ``labels`` are those of workers that may still be started.
    """
    has = [{*labels}, *({*node.labels} for node in view.nodes if node.alive)]
    return sum(
        run.wants for run in view.runs
        if not run.where or any({*run.where} <= each for each in has)
    )  # fmt: skip


def nodes_for(slots: int, nodes: Sequence[NodeView], expected: int = 0) -> int:
    """Workers that have so many slots, if all are like ``nodes``, or as expected if none is."""
    have = sum(node.slots for node in nodes)
    return ceil(slots / max(1, have // len(nodes) if nodes else expected))


def more_for_memory(view: ClusterView, nodes: Sequence[NodeView]) -> int:
    """Workers like these that hold the actors which wait for memory alone.

    A run whose actors an empty one would not hold either asks for none.
    """
    share = Fraction(0)
    for run in view.runs:
        like = [node.shm_bytes for node in nodes if {*run.where} <= {*node.labels}]
        if run.lacks_memory and like:
            fits = (max(like) - run.executor_bytes) // max(1, run.actor_bytes)
            share += Fraction(run.lacks_memory, fits) if fits > 0 else 0
    return ceil(share)
