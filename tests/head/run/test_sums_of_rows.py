"""What is recorded of large values costs no more than it may."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from named import acting

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.clock import ManualClock
from artos.protocol.invocations import Done, Invoke
from artos.specs.keys import DataKey
from head.run.concerns import recording
from head.run.concerns.recording import Recording, large_sums

ROWS = 100
KEYS = (DataKey("observations", (300,), "uint8"), DataKey("next", (40, 40), "uint8"),
        DataKey("rewards"))  # fmt: skip


@pytest.fixture
def block(tmp_path: Path) -> ActorBlock:
    spec = BlockSpec(0, KEYS, ROWS + ROWS // 2, envs=2, on_full="overwrite")
    return ActorBlock.create(tmp_path / "actor-0", spec)


def recorded(block: ActorBlock, clock: ManualClock) -> Recording:
    outline: Any = SimpleNamespace(total_steps=1 << 20, short_rounds=False)
    ports = SimpleNamespace(clock=clock, blocks={0: block})
    members = SimpleNamespace(role=lambda member: SimpleNamespace(samples=True))
    run: Any = SimpleNamespace(plan=outline, ports=ports, members=members)
    return Recording(run)


def sampled(made: Recording, block: ActorBlock) -> bytes | None:
    """The sums that are recorded of the next round; None if there are none."""
    (actor,), stop = acting(0), block.written + ROWS
    call = Invoke(1, "actors.sample", "sample", stop=stop)
    made.invoked(actor, call)
    block.commit(block.allocate(ROWS) + ROWS)
    facts = made.answered(actor, call, Done(1, 0))
    assert "rows" in facts
    sums: bytes | None = facts.get("large")
    return sums


def test_each_row_has_a_sum_of_all_its_large_values(block: ActorBlock) -> None:
    clock = ManualClock()
    made = recorded(block, clock)
    before = sampled(made, block)
    assert before is not None
    for name, row in (("observations", 3), ("next", 90)):
        block.arrays[name][row, 1, ...] ^= 1
    block.arrays["rewards"][50] += 1.0
    after = large_sums(block, 0, ROWS)
    differ = {
        at // 2 for at, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1
    }
    assert differ == {3, 90}


def test_rows_that_go_over_the_end_of_the_block(block: ActorBlock) -> None:
    sampled(made := recorded(block, clock := ManualClock()), block)
    clock.advance(60.0)
    assert len(sampled(made, block) or b"") == 2 * ROWS


def test_there_are_no_more_sums_than_a_minute_may_have(block: ActorBlock) -> None:
    made = recorded(block, clock := ManualClock())
    assert sampled(made, block)
    clock.advance(0.5 * ROWS / 5_000)
    assert sampled(made, block) is None
    clock.advance(0.5 * ROWS / 5_000)
    assert sampled(made, block)


def test_they_take_no_more_time_than_a_run_may_lose(
    block: ActorBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*rows: Any) -> bytes:
        clock.advance(0.1)
        return large_sums(*rows)

    monkeypatch.setattr(recording, "large_sums", slow)
    made = recorded(block, clock := ManualClock())
    assert sampled(made, block)
    clock.advance(9.0)
    assert sampled(made, block) is None
    clock.advance(1.0)
    assert sampled(made, block)
