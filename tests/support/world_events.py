"""What may happen to a world, at random: nodes, runs and heads that come, go and die."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from worlds import World

from head.daemon.quotas import Quota, Quotas
from head.daemon.run import Run

QUOTAS = Quotas(
    users={"u0": Quota(slots=2, devices=1), "u1": Quota(slots=3), "*": Quota(slots=4)},
    workloads={"w0": Quota(slots=3, devices=1)},
)
"""Quotas of the users and workloads of ``happen``."""
_KINDS = [
    *["join", "submit", "up"] * 3, "silence", "drain", "kill", "kill", "done", "executor dies",
    "executor dies", "seconds", "stop", "wait", "head",
]  # fmt: skip


def events(min_size: int = 0, max_size: int = 60) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Events for ``happen``: what, and to whom."""
    event = st.tuples(st.sampled_from(_KINDS), st.integers(0, 5))
    return st.lists(event, min_size=min_size, max_size=max_size)


def restarted(world: World, quotas: Quotas | None = None) -> World:
    """The head was killed and is started again, with other ``quotas`` if given."""
    state, now = world.saved(), world.clock.now()
    quotas = quotas or state.quotas
    scheduler = type(world.scheduler)(state.runs, state.queue, now, quotas, state.spent)
    after = replace(world, scheduler=scheduler)
    after.expect(state.nodes)
    after.turn()
    for node in state.nodes:
        after.join(node.name, node.slots, runs_per_slot=node.runs_per_slot)
        if node.leaves:
            after.drain(node.name)
    return after


def happen(world: World, event: str, which: int, number: int) -> World:
    """The ``number``-th event, if it can happen; returns the world after it."""
    node, name = f"n{which}", f"r{which}"
    known, found = world.roster.get(node), world.scheduler.runs.get(name)
    alive, active = known is not None and known.alive, found is not None and found.active
    match event:
        case "join" if not alive:
            many = 1 + number % 3
            world.join(node, slots=1 + which, life=str(number), runs_per_slot=many)
        case "submit" if found is None or found.over:
            settings = {"weight": 1 + which % 3} | ({"device": "pool"} if number % 2 else {})
            request = {"workload": f"w{number % 2}", "settings": settings}
            how = "pack" if which % 2 else "spread"
            world.scheduler.submit(Run(name, request, name, user=f"u{which % 3}", placement=how))
            world.turn()
        case "up" if active and found.up is None:
            world.actors = 1 + number % 5
            world.up(name)
        case "silence" if alive:
            world.silence(node)
        case "drain" if alive:
            world.drain(node)
        case "kill" if active:
            world.ended(name, -9)
        case "done" if active:
            world.ended(name, 0)
        case "executor dies" if alive and world.executors[node]:
            world.executor_ended(node, next(iter(world.executors[node])))
        case "seconds" if active:
            usage = {"cpu_seconds_held": float(number), "device_seconds_held": 1.0}
            world.news(name, steps=number, usage=usage)
            world.turn()
        case "stop" if found is not None:
            world.scheduler.stop(found)
            world.turn()
        case "wait":
            world.clock.advance(5)
            world.roster.heard({each.peer: 0.0 for each in world.roster})
            world.turn()
        case "head":
            world = restarted(world)
    return world
