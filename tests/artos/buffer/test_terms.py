"""Blocks whose keys travel apart, and of actors that move: what is whole, what becomes void."""

from __future__ import annotations

from contextlib import suppress

import pytest
from buffer_helpers import Fuse, Killed, arm, new_block

from artos.buffer import actor_block
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.shm_folder import ShmFolder
from artos.specs.keys import VERSION_KEY, DataKey

KEYS = (DataKey("early", (2,), "int64"), DataKey("late", (), "int64", per_env=False))
NAMES = ("early", "late", VERSION_KEY)
CONSUMERS = (Consumer("stage", ("early", VERSION_KEY)), Consumer("rest", ("late",)))


def written(block: ActorBlock) -> list[int]:
    return [block.headers[name].written for name in NAMES]


def test_a_block_may_begin_at_any_row(folder: ShmFolder) -> None:
    spec = BlockSpec(0, KEYS, 10, 1, CONSUMERS, "wait")
    block = ActorBlock.create(folder.path / "block", spec, base=1234, term=3)
    assert (block.written, block.free()) == (1234, 10)
    assert block.allocate(10, 0) == 1234
    block.commit(1244)
    assert block.free() == 0
    for consumer in CONSUMERS:
        assert block.headers[consumer.keys[0]].cursor(CONSUMERS.index(consumer)) == (1234, 1234)
        block.acknowledge(consumer.name, 1244, 1240)
    assert block.free() == 6


def test_incarnations_of_different_places_have_different_numbers(folder: ShmFolder) -> None:
    numbers = set()
    for term in (1, 2, 3):
        spec = BlockSpec(0, KEYS, 10)
        block = ActorBlock.create(folder.path / f"block{term}", spec, term=term)
        numbers |= {block.begin_incarnation() for _ in range(3)}
    assert len(numbers) == 9
    assert {1, 2, 3} < numbers, "the first place counts as if there were no others"


def test_a_new_term_rolls_every_key_back(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 10)
    block.begin_term(1, 0)
    block.reserve(8, NAMES)
    block.commit(8, ("early", VERSION_KEY))
    block.commit(5, ("late",))
    block.begin_term(2, 5)
    assert (written(block), block.incarnation) == ([5, 5, 5], 2)
    # Rows 5 to 7 were overwritten once already: a reader of what lay there before must know.
    assert block.headers["early"].reserved == 8


def test_the_same_term_again_changes_nothing(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 10)
    block.begin_term(1, 0)
    block.reserve(8, NAMES)
    block.commit(8)
    block.begin_term(1, 0)
    assert written(block) == [8, 8, 8]


def test_a_term_cannot_begin_where_no_row_is(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 10)
    with pytest.raises(ValueError, match="has 0 rows, not 3"):
        block.begin_term(1, 3)


@pytest.mark.parametrize("stores", range(9))
def test_a_term_cut_short_is_begun_again(folder: ShmFolder, stores: int) -> None:
    block = new_block(folder.path, KEYS, 10)
    block.begin_term(1, 0)
    block.reserve(8, NAMES)
    block.commit(8, ("early", VERSION_KEY))
    block.commit(5, ("late",))
    arm(block, Fuse(stores))
    with suppress(Killed):
        block.begin_term(2, 4)
    again = ActorBlock.attach(block.segment.path)
    assert again.incarnation in (1, 2)
    assert again.incarnation == 1 or written(again) == [4, 4, 4]
    again.begin_term(2, 4)
    assert (written(again), again.incarnation) == ([4, 4, 4], 2)


@pytest.mark.parametrize("stores", range(8))
@pytest.mark.parametrize("before", [("early", VERSION_KEY), NAMES], ids=["a stage", "all"])
def test_a_stage_killed_between_any_two_stores(
    folder: ShmFolder, before: tuple[str, ...], stores: int
) -> None:
    """Keys travel one after the other: the late ones are behind what was committed before."""
    block = new_block(folder.path, KEYS, 8)
    block.reserve(8, NAMES)
    block.commit(3, before)
    block.commit(7, ("early", VERSION_KEY))
    there = block.headers["late"].written
    doomed = ActorBlock.attach(block.segment.path)
    arm(doomed, fuse := Fuse(stores))
    with suppress(Killed):
        doomed.commit(5, ("late",))
    heir = ActorBlock.attach(block.segment.path)
    heir.recover()
    assert heir.headers["late"].written in ((5,) if fuse.left else (there, 5))
    assert [heir.headers[name].written for name in ("early", VERSION_KEY)] == [7, 7]


@pytest.mark.parametrize("stores", range(6))
def test_a_stage_of_several_keys_is_finished_as_a_whole(folder: ShmFolder, stores: int) -> None:
    """Of other keys than the first, nothing else is published with them."""
    block = new_block(folder.path, KEYS, 8)
    block.reserve(8, NAMES)
    doomed = ActorBlock.attach(block.segment.path)
    arm(doomed, fuse := Fuse(stores))
    with suppress(Killed):
        doomed.commit(5, ("late", VERSION_KEY))
    heir = ActorBlock.attach(block.segment.path)
    heir.recover()
    assert written(heir) == ([0, 5, 5] if stores >= 2 else [0, 0, 0]), fuse.left


def test_room_is_what_may_be_written_whatever_is_done_with_the_rest(folder: ShmFolder) -> None:
    waiting = new_block(folder.path, KEYS, 10, consumers=CONSUMERS, on_full="wait")
    assert waiting.room() == 10
    waiting.reserve(8, NAMES)
    waiting.commit(8)
    assert waiting.room() == 10
    for consumer in CONSUMERS:
        waiting.acknowledge(consumer.name, 8, 3)
    assert waiting.room() == 13
    losing = new_block(folder.path, KEYS, 10, on_full="overwrite")
    losing.reserve(8, NAMES)
    losing.commit(8, ("early",))
    assert losing.room() == 10
    losing.commit(8)
    assert losing.room() == 18


def test_rows_are_released_key_by_key(folder: ShmFolder) -> None:
    """Each by those who consume it; what nobody consumes by the slowest of all."""
    keys = (*KEYS, DataKey("spare"))
    block = new_block(folder.path, keys, 10, consumers=CONSUMERS, on_full="wait")
    block.commit(block.allocate(8) + 8)
    names = ("early", "late", "spare", VERSION_KEY)
    block.acknowledge("stage", 8, 5)
    assert [block.headers[name].released for name in names] == [5, 0, 0, 5]
    block.acknowledge("rest", 8, 3)
    assert [block.headers[name].released for name in names] == [5, 3, 3, 5]


def test_more_rows_than_there_can_ever_be_room_for_are_not_waited_for(folder: ShmFolder) -> None:
    keys = (DataKey("frames", (), "uint8", stack=3), DataKey("ages", (), "uint8"))
    block = new_block(folder.path, keys, 10, on_full="wait")
    assert block.allocate(8, 0.0) == 0
    with pytest.raises(ValueError, match="9 rows never fit a block with room for 8"):
        block.allocate(9, 0.0)


def test_a_wait_for_room_that_is_interrupted_goes_on(folder: ShmFolder) -> None:
    """As by a signal: neither the room nor the deadline has come."""
    block = new_block(folder.path, KEYS, 4, consumers=CONSUMERS, on_full="wait")
    block.commit(block.allocate(4) + 4)
    waits: list[float] = []

    class Room:
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            if len(waits) == 2:
                for consumer in CONSUMERS:
                    block.acknowledge(consumer.name, 4, 1)
            return len(waits) == 2

        def ring(self) -> None: ...

    block._space = Room()  # type: ignore[assignment]
    assert block.allocate(1, 60.0) == 4
    assert len(waits) == 2
    rings: list[None] = []
    block._space.ring = lambda: rings.append(None)  # type: ignore[method-assign]
    block.acknowledge("stage", 4, 2)
    assert not rings, "nobody waits any more"


def test_room_that_comes_just_before_the_wait_is_not_waited_for(
    folder: ShmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = new_block(folder.path, KEYS, 4, consumers=CONSUMERS, on_full="wait")
    block.commit(block.allocate(4) + 4)

    def release() -> None:
        monkeypatch.undo()
        for consumer in CONSUMERS:
            block.acknowledge(consumer.name, 4, 1)
        block._space.drain()
        monkeypatch.setattr(block._space, "wait", lambda seconds: pytest.fail("it waits"))

    monkeypatch.setattr(actor_block, "fence", release)
    assert block.allocate(1, 60.0) == 4
