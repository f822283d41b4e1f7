"""Which rows of a cache are due, and that an agent's successor goes on as it would have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.shm_folder import ShmFolder
from artos.clock import ManualClock
from artos.specs.keys import VERSION_KEY, DataKey
from triggers.primitives import TimeTrigger, TransferTrigger
from workers.agent.agent import Caches

STAGES = (Consumer("transfer.0", ("a", VERSION_KEY)), Consumer("transfer.1", ("b", "rest")))
KEYS = tuple(DataKey(name) for name in ("a", "b", "rest"))


@pytest.fixture
def folder() -> Iterator[Path]:
    made = ShmFolder.create("test")
    yield made.path
    made.remove()


class Watched:
    """An agent's caches, and what they wanted shipped: actor, stage, row."""

    def __init__(self, trigger: TransferTrigger, clock: ManualClock | None = None) -> None:
        self.fired: list[tuple[int, int, int]] = []
        table = {"transfer": trigger}
        self.caches = Caches(
            STAGES, table, clock or ManualClock(), lambda *due: self.fired.append(due)
        )

    def look(self) -> list[tuple[int, int, int]]:
        self.caches.feed_commits()
        fired, self.fired = self.fired, []
        return fired


def block_at(folder: Path, base: int = 0, term: int = 1) -> ActorBlock:
    spec = BlockSpec(0, KEYS, 100, 1, STAGES, "wait")
    return ActorBlock.create(folder / f"block{term}", spec, base=base, term=term)


def commit(block: ActorBlock, rows: int, version: int = 0) -> None:
    start = block.allocate(rows, 0)
    for step in range(start, start + rows):
        block.arrays[VERSION_KEY][block.index(step)] = version
    block.commit(start + rows)


def test_stages_fire_one_after_the_other(folder: Path) -> None:
    watched, block = Watched(TransferTrigger((("a",), ("b",)), 4)), block_at(folder)
    watched.caches.place(0, block)
    commit(block, 9)
    assert watched.look() == [(0, 0, 4), (0, 1, 4), (0, 0, 8), (0, 1, 8)]
    assert watched.look() == []
    commit(block, 3)
    assert watched.look() == [(0, 0, 12), (0, 1, 12)]


def test_rows_of_a_place_fire_from_its_first_one_on(folder: Path) -> None:
    watched, block = Watched(TransferTrigger((("a",), ("b",)), 4)), block_at(folder, base=1002)
    assert watched.caches.place(0, block) == ([1002, 1002], [1002, 1002])
    commit(block, 5)
    assert watched.look() == [(0, 0, 1006), (0, 1, 1006)]
    moved = block_at(folder, base=1003, term=2)
    watched.caches.leave(0)
    watched.caches.place(0, moved)
    commit(moved, 5)
    assert watched.look() == [(0, 0, 1007), (0, 1, 1007)]


def test_a_successor_knows_what_fired_and_what_arrived(folder: Path) -> None:
    first, block = Watched(TransferTrigger((("a",), ("b",)), 4)), block_at(folder)
    first.caches.place(0, block)
    commit(block, 6)
    first.look()
    first.caches.arrived(0, 0, 3)
    second = Watched(TransferTrigger((("a",), ("b",)), 4))
    assert second.caches.place(0, ActorBlock.attach(block.segment.path)) == ([4, 4], [3, 0])
    assert second.look() == []
    commit(block, 2)
    assert second.look() == [(0, 0, 8), (0, 1, 8)]


def test_a_stage_that_did_not_fire_before_its_agent_died_fires_then(folder: Path) -> None:
    first, block = Watched(TransferTrigger((("a",), ("b",)), 4)), block_at(folder)
    first.caches.place(0, block)
    commit(block, 4)
    block.acknowledge("transfer.0", 4, 0)  # the first stage fired; then its agent was killed
    second = Watched(TransferTrigger((("a",), ("b",)), 4))
    assert second.caches.place(0, block) == ([4, 0], [0, 0])
    assert second.look() == [(0, 1, 4)]


def test_what_arrived_makes_room_once_it_did_in_all_stages(folder: Path) -> None:
    watched, block = Watched(TransferTrigger((("a",), ("b",)), 4)), block_at(folder)
    watched.caches.place(0, block)
    commit(block, 100)
    watched.look()
    watched.caches.arrived(0, 0, 50)
    assert block.free() == 0
    watched.caches.arrived(0, 1, 20)
    assert block.free() == 20


def test_a_condition_decides_when(folder: Path) -> None:
    clock = ManualClock()
    watched = Watched(TransferTrigger(("a", "b"), condition=TimeTrigger(5.0)), clock)
    block = block_at(folder)
    watched.caches.place(0, block)
    commit(block, 3)
    assert watched.look() == []
    clock.advance(6.0)
    watched.caches.engine.tick()
    assert watched.fired == [(0, 0, 3), (0, 1, 3)]


def test_a_flush_asks_no_trigger(folder: Path) -> None:
    watched, block = Watched(TransferTrigger((("a",), ("b",)), 4)), block_at(folder)
    watched.caches.place(0, block)
    commit(block, 3)
    assert watched.look() == []
    watched.caches.flush()
    assert watched.look() == [(0, 0, 3), (0, 1, 3)]


def test_rows_of_who_left_are_of_no_concern(folder: Path) -> None:
    clock = ManualClock()
    watched = Watched(TransferTrigger(("a", "b"), condition=TimeTrigger(5.0)), clock)
    block = block_at(folder)
    watched.caches.place(0, block)
    commit(block, 3)
    watched.look()
    watched.caches.leave(0)
    clock.advance(6.0)
    watched.caches.engine.tick()
    assert watched.fired == []
