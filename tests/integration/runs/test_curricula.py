"""What is set while a run goes is what its rows say, through kills and resumes."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import climbing
import pytest
from helpers import ROOT, SUPPORT
from named import LEARNER
from real_runs import Artos, Outcome, book_of, journal, updates
from test_set_live import asked

from artos.specs.members import ACTORS, Member

Start = Callable[..., Artos]


@pytest.fixture(autouse=True)
def code(home: Path) -> None:
    shutil.copy(SUPPORT / "climbing.py", home)
    shutil.copy(ROOT / "docs" / "examples" / "my_curriculum.py", home)


@pytest.mark.parametrize("kept", ["model", "all"])
def test_a_table_sets_it_and_a_resumed_run_begins_with_it(
    kept: str, artos: Callable[..., Outcome], home: Path
) -> None:
    run, inline = home / "run", ("--inline", "--json", "--total-steps")
    saves = ("--set", f"checkpoint={kept}")
    begun = artos("run", "climbing.py:workload", *inline, 640, *saves, "--run-dir", run)
    assert begun.status == 0, begun.err
    assert [line["set"] for line in journal(run) if "set" in line] == [{"env.level": 5.0}]
    climbing.assert_true(book_of(run), journal(run))
    assert {*book_of(run)[:, 2].tolist()} == {0, 1}
    before = len(book_of(run))
    again = artos("run", "--resume", run, *inline, 1280)
    assert again.status == 0, again.err
    assert "as it was set while the run went: env.level=5" in again.err
    # The first episode of the new environments is at that level, too; the table says nothing new.
    assert {tuple(row) for row in book_of(run)[before:, 2:].tolist()} == {(1, 5)}
    assert [line["set"] for line in journal(run) if "set" in line] == [{"env.level": 5.0}] * 2


@pytest.mark.long
@pytest.mark.processes
def test_rows_tell_the_truth_whoever_is_killed(start: Start, home: Path) -> None:
    slow, run = home / "slow", home / "run"
    slow.touch()
    begun = ("run", "climbing.py:workload", "--run-dir", run, "--set", "episodes=9999", "--json")
    artos = start(*begun, "--total-steps", 9600)
    artos.until(lambda: updates(run) and (run / "checkpoint" / "manifest.json").exists())
    assert asked(home, run, "env.level=2") == (0, {"env.level": 2.0})
    assert asked(home, run, "env.level=12", "env.lever=2") == (2, {})
    artos.kill(Member(ACTORS, 1))
    artos.until(lambda: [line for line in journal(run) if "died" in line])
    before = updates(run)
    artos.until(lambda: updates(run) > before + 3)
    artos.kill(LEARNER)
    assert asked(home, run, "env.level=7", "max_lag=0")[1] == {"env.level": 7.0, "max_lag": 0.0}
    before = updates(run)
    artos.until(lambda: updates(run) > before + 3)
    artos.signal(signal.SIGINT)
    artos.wait()
    slow.unlink()
    outcome = start("run", "--resume", run, "--json").wait()
    assert outcome.status == 0, outcome.err
    book = book_of(run)
    assert len(book) >= 9600
    climbing.assert_true(book, journal(run))
    assert {*book[:, 3].tolist()} >= {0, 2, 7}
    sampled = [line for line in journal(run) if line.get("by") == "actor 0"]
    assert sampled[-1]["configuration"] == 2


@pytest.mark.long
def test_the_page_of_curricula_learns(artos: Callable[..., Outcome], home: Path) -> None:
    run = home / "run"
    begun = ("my_curriculum.py:workload", "--inline", "--json", "--run-dir", run, "--seed", 1)
    outcome = artos("run", *begun, "--total-steps", 6_000)
    assert outcome.status == 0, outcome.err
    levels = [line["set"]["env.length"] for line in journal(run) if "set" in line]
    assert levels == [3, 6, 12]
    assert outcome.summary["mean_return_100"] > 0.9
    assert outcome.summary["progress"]["settings/env.length"] == 12


WINDY = """
from dataclasses import replace
from artos import Changeable
from my_actor import Gradient, Player, workload as made
from triggers import CountTrigger, Once, SetTrigger, ValueTrigger

class Windy(Player):
    changeable = (Changeable("wind", ge=0, le=90),)
    wind = 0

    def sample(self, start, rows, call):
        super().sample(start, rows, call)
        wind, capacity = call.settings.get("wind", self.wind), self.block.spec.capacity
        assert isinstance(wind, int), "as the attribute is"
        at = [step % capacity for step in range(start, start + rows)]
        self.block.arrays["rewards"][at] += wind
        return {}

class Told(Gradient):
    def update(self, batch, call):
        numbers, rewards = batch.gather("configuration"), batch.gather("rewards")
        assert numbers.shape == rewards.shape
        calm = numbers < 1
        assert (rewards[calm] < 20).all() and (rewards[~calm] > 20).all()
        return {**super().update(batch, call), "blown": float((~calm).sum())}

def gusts():
    # Rounds in which more episodes end than an actor tells of.
    given = made(total_steps=25_600)
    stronger = SetTrigger(ValueTrigger("mean_return_20", above=-1000), (10, 20, 40))
    rows = replace(given.triggers["learner.update"], size=160)
    triggers = {**given.triggers, "learner.update": rows, "set.env.wind": stronger}
    return replace(given, actor=Windy(), steps=160, triggers=triggers)

def workload(wind: float = 90):
    given = made(total_steps=2_560)
    blows = SetTrigger(Once(CountTrigger(rows=100)), wind)
    table = {**given.triggers, "set.env.wind": blows}
    return replace(given, actor=Windy(), learner=Told(0.1), triggers=table)
"""


def test_an_actor_of_ones_own_says_what_may_be_set(
    artos: Callable[..., Outcome], home: Path
) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_actor.py", home)
    (home / "windy.py").write_text(WINDY)
    ended = artos("run", "windy.py:workload", "--inline", "--json", "--run-dir", home / "run")
    assert ended.status == 0, ended.err
    assert [line["set"] for line in journal(home / "run") if "set" in line] == [{"env.wind": 90.0}]
    assert ended.summary["progress"]["metrics/reward"] > 20, "arms pay 1 at most, the wind 90"
    assert ended.summary["progress"]["metrics/blown"] > 0
    harder = artos("run", "windy.py:gusts", "--inline", "--json", "--run-dir", home / "harder")
    assert harder.status == 0, harder.err
    levels = [line["set"] for line in journal(home / "harder") if "set" in line]
    assert levels == [{"env.wind": float(level)} for level in (10, 20, 40)]
    assert harder.summary["progress"]["episodes"] == 25_600, "each pull of an arm is one"
    refused = artos("run", "windy.py:workload", "--inline", "--set", "wind=100")
    assert refused.status == 2
    assert "env.wind must be at most 90, not 100" in refused.err
    refused = artos("run", "windy.py:workload", "--inline", "--set", "wind=1.5")
    assert "env.wind must be a whole number, not 1.5" in refused.err


OTHERWISE = """
from dataclasses import replace
from artos import Changeable
from climbing import Climber, CountTrigger, Once, SetTrigger
from counting import workload as made

def workload():
    given = made(total_steps=640)
    given.actor.changeable = (Changeable("wind"),)
    blows = SetTrigger(Once(CountTrigger(rows=100)), 3)
    return replace(given, learner=Climber(), triggers={**given.triggers, "set.env.wind": blows})
"""


def test_rows_say_in_which_configuration_also_where_only_the_actor_can_be_set(
    artos: Callable[..., Outcome], home: Path
) -> None:
    (home / "otherwise.py").write_text(OTHERWISE)
    ended = artos("run", "otherwise.py:workload", "--inline", "--json", "--run-dir", home / "run")
    assert ended.status == 0, ended.err
    numbers, steps = book_of(home / "run")[:, 2], book_of(home / "run")[:, 1]
    assert [*numbers[steps < 16], numbers[-1]] == [0] * sum(steps < 16) + [1]
