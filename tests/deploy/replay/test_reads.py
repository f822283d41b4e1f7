"""Rows that a learner of a replay is still to read are kept, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.looks import RESERVED, ROWS
from artos.protocol.invocations import Claim
from artos.runs.tape import UNCHANGED, Called, Header, Looked, Record, Recorded
from artos.specs.keys import DataKey
from deploy.replay.own_block import OwnBlock
from deploy.replay.reads import Reads
from deploy.replay.script import Fired, Script

CAPACITY = 8
ROUND = 4


def reads(*records: Record, claims: dict[int, Claim] | None = None) -> Reads:
    fired = {number: Fired("model.fit", (claim,)) for number, claim in (claims or {}).items()}
    tape = Recorded(Header(), records, Path("model-0.tape"))
    return Reads([tape], Script(firings=fired))


def called(firing: int) -> Called:
    return Called(firing, 0, 0, None)


def test_what_its_invocations_claim() -> None:
    claims = {2: Claim(1, 0, 8), 5: Claim(1, 8, 16), 7: Claim(0, 0, 4)}
    found = reads(called(2), called(5), claims=claims)
    assert (found.any_of(0), found.any_of(1)) == (False, True), "another learner claims firing 7"
    assert [found.next(1, rows) for rows in (0, 7, 8, 15, 16)] == [8, 8, 16, 16, None]
    assert found.last(1) == 16


def test_a_look_may_be_of_any_actor() -> None:
    looks = (Looked(RESERVED, (99, 99)), Looked(ROWS, (4, 9)), UNCHANGED, Looked(ROWS, (12, 20)))
    found = reads(*looks)
    assert [found.next(0, rows) for rows in (0, 8, 9, 19, 20)] == [4, 4, 12, 12, None]
    assert found.last(0) == found.last(7) == 20
    both = reads(called(2), *looks, claims={2: Claim(0, 2, 6)})
    assert [both.next(0, rows) for rows in (0, 5, 6, 9)] == [4, 4, 4, 12]
    assert both.last(0) == 20


def test_nothing_at_all() -> None:
    found = reads(called(3), Looked(RESERVED, (8,)), Looked(ROWS, (0,)))
    assert not found.any_of(0)
    assert found.next(0, 0) is None


@pytest.fixture
def block(tmp_path: Path) -> ActorBlock:
    spec = BlockSpec(0, (DataKey("rewards"),), CAPACITY, on_full="overwrite")
    return ActorBlock.create(tmp_path / "actor-0", spec)


def write(block: ActorBlock, rounds: int, reader: OwnBlock) -> None:
    """Rows that hold their own number."""
    for _ in range(rounds):
        start = block.allocate(ROUND)
        for row in range(start, start + ROUND):
            block.arrays["rewards"][block.index(row)] = row
        block.commit(start + ROUND)
        reader.wrote(block, start)


Own = Callable[[Reads], OwnBlock]


@pytest.fixture
def own(block: ActorBlock, tmp_path: Path) -> Own:
    return lambda found: OwnBlock(block, tmp_path / "own", found)


def seen(tmp_path: Path, start: int, stop: int) -> list[int]:
    """Rows that its reader finds."""
    found = np.zeros((stop - start, 1), np.float32)
    ActorBlock.attach(tmp_path / "own").read("rewards", start, stop, found)
    return [int(value) for value in found[:, 0]]


def test_rows_wait_until_their_reader_comes_to_them(
    block: ActorBlock, own: Own, tmp_path: Path
) -> None:
    """Also when the block has long been overwritten, and in the midst of a round."""
    stops = {n: Claim(0, 0, stop) for n, stop in enumerate((6, 8, 24), 1)}
    mine = own(reads(*map(called, stops), claims=stops))
    write(block, 5, mine)
    assert mine.waiting == 20
    for stop, start in ((6, 0), (8, 0)):
        mine.reach(stop)
        assert seen(tmp_path, start, stop) == [*range(start, stop)]
    write(block, 1, mine)
    mine.reach(24)
    assert seen(tmp_path, 16, 24) == [*range(16, 24)]
    assert mine.waiting == 0


def test_rows_that_nobody_reads_are_not_kept(block: ActorBlock, own: Own, tmp_path: Path) -> None:
    """Those before its next look that have gone by then, and all after its last one."""
    mine = own(reads(called(1), Looked(ROWS, (42,))))
    waiting = []
    for _ in range(100):
        write(block, 1, mine)
        waiting.append(mine.waiting)
    assert max(waiting) == CAPACITY
    assert waiting[7:11] == [0, 2, 6, 8], "of rows 32 to 44"
    mine.reach(42)
    assert seen(tmp_path, 34, 42) == [*range(34, 42)]
    assert mine.waiting == 0
