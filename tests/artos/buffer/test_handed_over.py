"""Where rows are cut that were not handed over, so that a run can go on before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from buffer_helpers import KEYS, new_block

from artos.buffer.actor_block import ActorBlock
from artos.buffer.handed_over import cut, handed_over
from artos.buffer.layout import Consumer

A = Consumer("a.update", ("rewards",))
B = Consumer("b.update", ("terminations", "rewards"))


def written(path: Path, rows: int, consumers: tuple[Consumer, ...] = (A, B)) -> ActorBlock:
    block = new_block(path, KEYS, 16, consumers=consumers, on_full="wait")
    for _ in range(rows):
        step = block.allocate(1, seconds=0.0)
        block.arrays["rewards"][block.index(step)] = step
        block.commit(step + 1)
    return block


def test_rows_count_that_all_are_done_with_and_all_where_nobody_is_handed_any(
    tmp_path: Path,
) -> None:
    block = written(tmp_path, 9)
    block.acknowledge("a.update", 8, 8)
    assert handed_over(block) == 0
    block.acknowledge("b.update", 9, 5)
    assert handed_over(block) == 5
    assert handed_over(written(tmp_path, 9, ())) == 9


def test_what_is_cut_off_is_written_again_and_what_is_before_can_be_read(tmp_path: Path) -> None:
    block = written(tmp_path, 12)
    block.acknowledge("a.update", 12, 8)
    block.acknowledge("b.update", 8, 4)
    cut(block, handed_over(block))
    assert (block.written, handed_over(block)) == (4, 4)
    assert {block.headers["rewards"].cursor(n) for n in range(2)} == {(4, 4)}
    assert block.free() == 16 - block.spec.history, "nothing waits to be handed over"
    rows = np.zeros((4, 1))
    block.read("rewards", 0, 4, rows)
    assert rows[:, 0].tolist() == [0, 1, 2, 3]
    assert block.allocate(1, seconds=0.0) == 4


@pytest.mark.parametrize("row", [5, 30])
def test_a_cut_leaves_no_more_rows_than_there_are(tmp_path: Path, row: int) -> None:
    block = written(tmp_path, 9, ())
    cut(block, row)
    assert block.written == min(row, 9)
