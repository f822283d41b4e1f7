"""What is recorded of rows: sums of large values cost no more than they may; rounds end early."""

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
from artos.system.exit_report import ExitReport
from head.run.concerns import recording
from head.run.concerns.recording import Recording, checksum, large_sums
from triggers.events import Rewound

ROWS = 100
KEYS = (DataKey("observations", (300,), "uint8"), DataKey("next", (40, 40), "uint8"),
        DataKey("rewards"))  # fmt: skip


@pytest.fixture
def block(tmp_path: Path) -> ActorBlock:
    spec = BlockSpec(0, KEYS, ROWS + ROWS // 2, envs=2, on_full="overwrite")
    return ActorBlock.create(tmp_path / "actor-0", spec)


def recorded(block: ActorBlock, clock: ManualClock, *, short: bool = False) -> Recording:
    outline: Any = SimpleNamespace(total_steps=1 << 20, short_rounds=short, read_learners=())
    lines: list[dict[str, Any]] = []
    ports = SimpleNamespace(clock=clock, blocks={0: block}, journal=SimpleNamespace())
    ports.journal.lines, ports.journal.write = lines, lines.append
    members = SimpleNamespace(role=lambda member: SimpleNamespace(samples=True))
    run: Any = SimpleNamespace(plan=outline, ports=ports, members=members)
    run.invocations = SimpleNamespace(of=lambda member: run.unanswered)
    run.rounds = SimpleNamespace(written_by=lambda actor: block.written)
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


def short_rounds(block: ActorBlock) -> tuple[Recording, list[Invoke]]:
    """Of 100 rows at most, the first of which ended after 60; two more are asked for."""
    made, (actor,) = recorded(block, ManualClock(), short=True), acting(0)
    calls = [Invoke(n, "actors.sample", "sample", stop=100 * n) for n in (1, 2, 3)]
    for call in calls:
        made.invoked(actor, call)
    block.commit(block.allocate(60) + 60)
    facts = made.answered(actor, calls[0], Done(1, 0, written=60))
    assert (facts["ended"], facts["rows"]) == (60, checksum(block, 0, 60))
    return made, calls[1:]


def lost(made: Recording, unanswered: list[Invoke]) -> list[tuple[int, int | None]]:
    """Of which rounds it is recorded that an actor had done them without a word, and how far."""
    made.run.invocations.of = lambda member: unanswered  # type: ignore[method-assign,assignment,return-value]
    made.failed(acting(0)[0], ExitReport("killed"))
    lines: Any = made.run.ports.journal
    return [(line["again"], line.get("kept")) for line in lines.lines]


def test_an_actor_that_dies_within_a_round_leaves_nothing_of_it(block: ActorBlock) -> None:
    assert lost(*short_rounds(block)) == []


def test_the_end_of_a_round_that_was_not_reported(block: ActorBlock) -> None:
    """By its process, whose answers all have come: it is that of the next one."""
    made, calls = short_rounds(block)
    block.commit(block.allocate(30) + 30)
    assert lost(made, calls) == [(2, 90)]
    made.answered(acting(0)[0], calls[0], Done(2, 0, written=90))
    block.commit(block.allocate(50) + 50)
    facts = made.answered(acting(0)[0], calls[1], Done(3, 0, written=140))
    assert facts["rows"] == checksum(block, 90, 140)


@pytest.mark.parametrize("booked", [0, 1])
def test_of_a_node_that_is_gone_nobody_knows_where_rounds_ended(
    booked: int, block: ActorBlock
) -> None:
    """Its rows came, and not what it said of them; a replay refuses that, and is not misled."""
    made, calls = short_rounds(block)
    rows = 60 + 30 + 120 * booked
    block.commit(block.allocate(rows - 60) + rows - 60)
    made.happened(Rewound(0, rows))
    assert lost(made, calls[booked:]) == []
