"""An actor that is placed anew: where its rows go on, what is lost, what triggers still count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from named import LEARNER, acting

from artos.buffer.actor_block import ActorBlock
from artos.buffer.model_block import ObjectSpec
from artos.clock import ManualClock
from artos.protocol.invocations import Done, Invoke, Ready
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey
from artos.specs.members import Member
from artos.specs.reference import Reference
from artos.system.exit_report import ExitReport
from head.run.concerns.relocation import Relocation
from head.run.coordination.ports import Ports
from head.run.coordination.rows import Arrivals
from head.run.run import Run
from head.run.wiring import connect
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, Trigger
from triggers.engine import direct_passers
from triggers.events import Rewound
from triggers.journal import Journal
from triggers.table import Table
from triggers.wiring import completed

STEPS, CAPACITY = 4, 16
(ACTOR,) = acting(0)


class Players:
    """Members that only remember what they were sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Member, Invoke]] = []
        self.passers = direct_passers(self._keep, (LEARNER, *acting(0, 1)))

    def _keep(self, member: Member, call: Invoke) -> None:
        self.sent.append((member, call))

    def end(self, member: Member) -> None: ...

    def start(self, member: Member) -> None: ...

    def waits_for_slot(self, member: Member) -> bool:
        return False

    def unplaced(self, member: Member) -> str:
        return ""

    def prepare(self, member: Member, within: float = 0.0) -> None: ...

    def retire(self, member: Member) -> None: ...

    def claims(self) -> list[tuple[tuple[int, int, int], ...]]:
        calls = [call for member, call in self.sent if member == LEARNER]
        return [tuple((c.actor, c.start, c.stop) for c in call.claims) for call in calls]


class Stage:
    def __init__(self, node: RunMemory, coordinator: Run, players: Players) -> None:
        self.node, self.coordinator, self.players = node, coordinator, players

    def block(self, actor: int) -> ActorBlock:
        return self.node.blocks[actor]

    def arrive(self, actor: int, rows: int) -> None:
        self.block(actor).commit(rows)
        self.coordinator.look(*acting(actor))

    def place(self, actor: int, term: int, committed: int = 0, node: str = "w1") -> int:
        base = self.coordinator.concern(Relocation).place_anew(actor, term, committed, node)
        self.block(actor).begin_term(term, base)
        return base


@contextmanager
def stage(
    folder: Path, size: int = STEPS, later: Trigger | None = None, *, short: bool = False
) -> Iterator[Stage]:
    rows = DataKeyTrigger(("x",), n=2, size=size)
    table: Table = {
        "learner.update": rows if later is None else rows & later,
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    clock, journal, players = ManualClock(), Journal(folder / "journal.jsonl"), Players()
    plan = Plan(
        reference=Reference("tests:workload"), name="test", env="none", seed=1, actors=2, envs=3,
        steps=STEPS, capacity=CAPACITY, on_full="wait", total_steps=10_000,
        data_keys=(DataKey("x"), DataKey("y")),
        objects=(ObjectSpec.sized("model_param", [ArraySpec("params", (1,))], 3),), layout=(),
        triggers={}, methods={"actors": ("sample",), "learner": ("update",)},
    )  # fmt: skip
    plan, table = completed(plan, table)
    plan = msgspec.structs.replace(plan, short_rounds=short)
    with RunMemory(plan, "anew", folder) as node:
        for block in node.blocks.values():
            block.arrays[VERSION_KEY][:] = 0
        ports = Ports.of(node, players, clock, journal, Arrivals(node.blocks))
        coordinator = connect(node.plan, table, ports)
        there = Stage(node, coordinator, players)
        for actor in (0, 1):
            assert there.place(actor, 1) == 0
        coordinator.begin()
        for member in (LEARNER, *acting(0, 1)):
            coordinator.receive(member, Ready(0.0))
        slot = node.weights.allocate()
        node.weights.commit(slot, 0)
        coordinator.look(LEARNER)
        yield there
    journal.close()


def lines_with(folder: Path, name: str) -> list[Any]:
    text = (folder / "journal.jsonl").read_text()
    return [line for line in map(json.loads, text.splitlines()) if name in line]


def lost(folder: Path) -> list[Any]:
    return lines_with(folder, "lost")


def test_it_goes_on_at_the_last_whole_round(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.arrive(0, STEPS + 3)
        assert there.place(0, 2, committed=2 * STEPS, node="w7") == STEPS
        assert there.coordinator.monitor.rows_lost == STEPS * 3
        assert there.coordinator.steps == STEPS * 3
    (line,) = lost(tmp_path)
    assert line == {"lost": STEPS, "actor": 0, "node": "w7", "from": STEPS, "granted": STEPS}


def test_concerns_are_told_of_rows_that_are_void(tmp_path: Path) -> None:
    """Those that look for episodes in rows, and those that record them, as triggers are."""
    with stage(tmp_path) as there:
        heard: list[object] = []
        run = there.coordinator
        run._happened = (*run._happened, heard.append)  # type: ignore[assignment]
        there.arrive(0, STEPS + 3)
        there.place(0, 2, committed=2 * STEPS, node="w7")
        assert Rewound(0, STEPS) in heard


def test_it_goes_on_at_the_last_round_that_ended_early(tmp_path: Path) -> None:
    """That has arrived whole; of the next one there is only a part."""
    with stage(tmp_path, short=True) as there:
        (call,) = [call for member, call in there.players.sent if member == ACTOR]
        there.arrive(0, 3)
        there.coordinator.receive(ACTOR, Done(call.firing, 0, written=3))
        there.arrive(0, 5)
        assert there.place(0, 2, committed=5, node="w7") == 3
        assert there.coordinator.monitor.rows_lost == 2 * 3


def test_void_rows_are_not_handed_over(tmp_path: Path) -> None:
    with stage(tmp_path, size=2) as there:
        there.arrive(0, 3)
        assert there.place(0, 2, committed=STEPS) == 0
        there.arrive(1, STEPS)
        assert there.players.claims() == [], "actor 0 has nothing any more"
        there.arrive(0, 2)
        assert there.players.claims() == [((0, 0, 2), (1, 0, 2))]


def test_rows_that_were_handed_over_stay(tmp_path: Path) -> None:
    with stage(tmp_path, size=2) as there:
        there.arrive(1, STEPS)
        there.arrive(0, 3)
        assert there.players.claims() == [((0, 0, 2), (1, 0, 2))]
        assert there.place(0, 2, committed=STEPS) == 2
        there.arrive(0, STEPS)
        assert there.players.claims()[1:] == [((0, 2, 4), (1, 2, 4))]


def test_rows_that_a_trigger_holds_stay(tmp_path: Path) -> None:
    with stage(tmp_path, size=2, later=TimeTrigger(5.0)) as there:
        there.arrive(1, STEPS)
        there.arrive(0, 3)
        assert there.players.claims() == []
        assert there.place(0, 2, committed=STEPS) == 2


def test_a_key_that_is_ahead_goes_back_to_the_slowest(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.block(0).commit(STEPS, ("x", VERSION_KEY))
        there.coordinator.look(ACTOR)
        assert there.place(0, 2, committed=STEPS) == 0
        there.arrive(1, STEPS)
        assert there.players.claims() == []
        there.arrive(0, STEPS)
        assert there.players.claims() == [((0, 0, STEPS), (1, 0, STEPS))]


def test_nothing_is_lost_when_all_has_arrived(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.arrive(0, STEPS)
        assert there.place(0, 2, committed=STEPS) == STEPS
        assert (there.coordinator.monitor.rows_lost, there.coordinator.monitor.rows_stale) == (0, 0)
    assert lost(tmp_path) == []


def test_a_finished_round_is_not_sampled_again(tmp_path: Path) -> None:
    from artos.system.exit_report import ExitReport  # noqa: PLC0415

    with stage(tmp_path) as there:
        (call,) = [m for member, m in there.players.sent if member == ACTOR]
        assert isinstance(call, Invoke)
        there.arrive(0, STEPS)
        there.place(0, 2, committed=STEPS)
        there.players.sent.clear()
        there.coordinator.died(ACTOR, ExitReport("node w1 is gone", own=False))
        assert there.players.sent == []
        there.coordinator.receive(ACTOR, Done(call.firing, 0))
        assert there.coordinator.monitor.episodes == 0


def test_a_replay_is_told_of_which_round_the_rows_are_that_are_left(tmp_path: Path) -> None:
    """The learner has begun to use a round of a node that is then lost."""
    with stage(tmp_path, size=STEPS // 2) as there:
        there.arrive(0, 3)
        there.arrive(1, 2)
        assert there.players.claims() == [((0, 0, 2), (1, 0, 2))]
        assert there.place(0, 2, committed=STEPS) == 2
        there.coordinator.died(ACTOR, ExitReport("node w1 is gone", own=False))
    ((call,), (told,)) = ([call for member, call in there.players.sent if member == ACTOR][:1],
                          lines_with(tmp_path, "again"))  # fmt: skip
    assert (told["by"], told["again"], told["version"]) == ("actor 0", call.firing, 0)
    assert (told["kept"], told["stop"]) == (2, STEPS)


def test_nothing_is_told_of_a_round_of_which_no_row_is_left(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.arrive(0, 3)
        assert there.place(0, 2, committed=STEPS) == 0
        there.coordinator.died(ACTOR, ExitReport("node w1 is gone", own=False))
    assert lines_with(tmp_path, "again") == []


def test_no_checksum_is_told_of_rows_that_others_have_taken_the_place_of(tmp_path: Path) -> None:
    """The answer of a round may be read after the actor has begun the one that overwrites it."""
    with stage(tmp_path) as there:
        there.arrive(0, STEPS)
        (call,) = [call for member, call in there.players.sent if member == ACTOR]
        for header in there.block(0).headers.values():
            header.set_released(STEPS)
        there.block(0).allocate(CAPACITY)  # after these four
        there.coordinator.receive(ACTOR, Done(call.firing, 0))
    (told,) = (line for line in lines_with(tmp_path, "asked") if line["by"] == "actor 0")
    assert "rows" not in told
