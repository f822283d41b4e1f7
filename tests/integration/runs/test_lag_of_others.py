"""``max_lag`` for learners beside the first one: their rows are of their versions, and kept new."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import SUPPORT
from inline_runs import registered

from artos.clock import SystemClock
from artos.errors import Refused
from artos.protocol.invocations import Invoke
from artos.runs.run_memory import RunMemory
from artos.specs.members import ACTORS, Member
from deploy.local.inline import Inline
from head.run.concerns.configured import Configured
from head.run.coordination.ports import Ports
from head.run.run import Run
from head.run.wiring import connect
from triggers.journal import Journal, read
from triggers.registration import Registration

LAGGING = """
import numpy as np
from artos import DataKey, Uniform, Workload
from pennies import ENVS, STEPS, Players, Policy
from triggers import DataKeyTrigger, ObjectKeyTrigger, ReplayTrigger, RoundTrigger

BOTH = ObjectKeyTrigger("even/model_param") & ObjectKeyTrigger("odd/model_param")


class Marked(Players):
    def data_keys(self):
        ends = (DataKey(name, (), "bool") for name in ("terminations", "truncations", "valid"))
        return *super().data_keys(), *ends, DataKey("ages", (), "uint8")

    def sample(self, start, rows, call):
        for row in (step % self.block.spec.capacity for step in range(start, start + rows)):
            for name, value in (("terminations", 0), ("truncations", 0), ("valid", 1), ("ages", 9)):
                self.block.arrays[name][row] = value
        return super().sample(start, rows, call)


class Drawing(Policy):
    def update(self, batch, call):
        oldest = int(self.count[0]) - int(batch["policy_version"].min())
        self.count += 1
        self.publish("made", self.count[0])
        self.fresh = True
        return {"oldest": oldest}


def workload(even=2, odd=2, keep=0, sample=BOTH, n=None, updates=120):
    sync = {"actors.sync": ObjectKeyTrigger("even/model_param", every=keep)} if keep else {}
    return Workload(
        name="lagging", actor=Players(),
        learners={"even": Policy("even", 1, 0.1), "odd": Policy("odd", -1, 0.1)},
        triggers={
            "even.update": DataKeyTrigger(("even", "rewards"), size=STEPS, max_lag=even),
            "odd.update": DataKeyTrigger(("odd", "rewards"), n=n, size=STEPS, max_lag=odd),
            "actors.sample": sample, **sync,
        },
        actors=2, steps=STEPS, total_steps=0, total_updates=updates,
    )


def alone():
    return workload(sample=ObjectKeyTrigger("even/model_param"))


def some():
    return workload(n=1)


def drawing(odd=3, updates=150):
    keys = ("odd", "rewards")
    return Workload(
        name="drawing", actor=Marked(),
        learners={"even": Drawing("even", 1, 0.1), "odd": Drawing("odd", -1, 0.1)},
        triggers={
            "even.update": ReplayTrigger(keys, Uniform(8), 0.5, after=32),
            "odd.update": ReplayTrigger(keys, Uniform(8), 0.5, after=32, max_lag=odd),
            "actors.sample": RoundTrigger(),
        },
        actors=2, steps=STEPS, capacity=256, on_full="overwrite", total_steps=0,
        total_updates=updates,
    )
"""


class Shuffled(Inline):
    """Whose turn it is is drawn, and ``odd`` is slow."""

    def __init__(self, node: RunMemory, seed: int) -> None:
        super().__init__(node)
        self._random = random.Random(seed)

    def _next(self) -> tuple[Member, Invoke] | None:
        firsts: dict[Member, int] = {}
        for at, (member, _) in enumerate(self._queue):
            firsts.setdefault(member, at)
        members = [*firsts]
        while members:
            weights = [1 if member.role == "odd" else 6 for member in members]
            (member,) = self._random.choices(members, weights)
            members.remove(member)
            call, block = self._queue[firsts[member]][1], self._node.blocks[member.rank]
            waits = member.role == ACTORS and self._node.plan.on_full == "wait"
            if not waits or call.stop - block.written <= block.free():
                del self._queue[firsts[member]]
                return member, call
        return None


def run(
    found: Registration, folder: Path, seed: int, after: Callable[[Run], None] = lambda _: None
) -> tuple[Run, list[dict[str, Any]]]:
    """Run it to its end; ``after`` is called after each invocation. Returns its updates, too."""
    journal = Journal(folder / "journal.jsonl")
    plan = msgspec.structs.replace(found.plan, deadline=40.0)
    with RunMemory(plan, "lagging", folder) as node:
        crowd = Shuffled(node, seed)
        made = connect(plan, found.table, Ports.of(node, crowd, SystemClock(), journal))
        crowd.run(made, lambda: after(made))
        crowd.stop()
    journal.close()
    return made, [line for line in read(folder / "journal.jsonl") if "lag_max" in line]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    shutil.copy(SUPPORT / "pennies.py", tmp_path)
    (tmp_path / "lagging.py").write_text(LAGGING)
    return tmp_path


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("even", "odd", "keep"), [(2, 2, 0), (3, 1, 0), (3, 2, 4)])
def test_actors_are_as_far_ahead_as_both_allow(
    even: int, odd: int, keep: int, seed: int, code: Path
) -> None:
    """Also where actors keep their weights: a bound of any learner has them bind in time."""
    found = registered("lagging.py:workload", code, even=even, odd=odd, keep=keep)
    made, lines = run(found, code, seed)
    lags = {name: [x["lag_max"] for x in lines if x["by"] == name] for name in ("even", "odd")}
    assert len(lags["even"]) == 120
    assert max(lags["even"]) <= even
    assert 0 < max(lags["odd"]) <= odd
    assert made.monitor.rows_lost == 0, "actors wait, so that no row is given up"


def test_what_cannot_be_set_is_refused(code: Path) -> None:
    found = registered("lagging.py:workload", code, even=0, odd=0)
    with pytest.raises(Refused, match=r"even.max_lag cannot be set .*max_lag, odd.max_lag"):
        run(found, code, 1, lambda made: made.concern(Configured).set({"even.max_lag": 1}))
    (code / "journal.jsonl").unlink()
    with pytest.raises(Refused, match="lets actors be 3 rounds ahead"):
        run(
            found,
            code,
            1,
            lambda made: made.concern(Configured).set({"max_lag": 9, "odd.max_lag": 3}),
        )


def test_a_bound_is_raised_and_lowered_and_no_row_is_given_up(code: Path) -> None:
    found = registered("lagging.py:workload", code, even=3, odd=3, updates=260)
    at = {30: {"odd.max_lag": 0.0}, 120: {"odd.max_lag": 2.0}}

    def after(made: Run) -> None:
        if (settings := at.pop(made.first.updates, None)) is not None:
            made.concern(Configured).set(settings)

    made, lines = run(found, code, 2, after)
    odd = [line["lag_max"] for line in lines if line["by"] == "odd"]
    assert max(odd[:30]) > 1
    assert {*odd[45:115]} == {0}
    assert 0 < max(odd[130:]) <= 2
    assert made.monitor.rows_lost == 0


def test_drawn_rows_are_of_the_versions_of_who_draws(code: Path) -> None:
    _, lines = run(registered("lagging.py:drawing", code), code, 0)
    odd = [line["lag_max"] for line in lines if line["by"] == "odd"]
    assert 0 < max(odd) <= 3
    even = [line["lag_max"] for line in lines if line["by"] == "even"]
    assert max(even) > 3, "it has no bound, and rows are of other versions of it"


@pytest.mark.parametrize(
    ("builder", "wanted"),
    [("alone", "actors do not wait for versions of the odd"), ("some", "leave out n, or max_lag")],
)
def test_a_bound_that_nobody_keeps_is_refused(builder: str, wanted: str, code: Path) -> None:
    with pytest.raises(Refused, match=wanted):
        registered(f"lagging.py:{builder}", code)
