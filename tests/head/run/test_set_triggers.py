"""A line of the table that sets something: when, to what, and what a resumed run makes of it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from elastic_loop import NOISE, STEPS, Troupe, full_batch, troupe

from artos.protocol.invocations import Done, Invoke
from artos.runs.plan import Plan
from artos.specs.actor_count import Manual
from artos.specs.configuration import Changeable, Configuration
from artos.specs.members import Member
from head.run.concerns.configured import Configured
from head.run.concerns.returns import Returns
from triggers import (
    CountTrigger,
    DataKeyTrigger,
    Once,
    SetTrigger,
    TimeTrigger,
    Trigger,
    ValueTrigger,
)
from triggers.events import Event, Published
from triggers.journal import read
from triggers.setting import following
from triggers.table import Table, decode_trigger
from triggers.verify.verifier import faults

LEVELS = SetTrigger(when=ValueTrigger(NOISE, above=3.0), set=(1, 2))


class Noisy(Troupe):
    """Publishes what it is told to."""

    told: Sequence[float] = ()

    def objects(self, update: int) -> dict[str, float]:
        return {NOISE: self.told[update - 1]} if update <= len(self.told) else {}


def table(max_lag: int = 0) -> Table:
    return full_batch(max_lag) | {"set.max_lag": LEVELS}


def sets(folder: Path) -> list[tuple[Any, int]]:
    lines = [line for line in read(folder / "journal.jsonl") if "set" in line]
    return [(line["set"], line["version"]) for line in lines]


def test_each_firing_sets_the_next_value_and_the_room_for_it_is_there(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), table(), 0, tmp_path, updates=40, kind=Noisy) as run:
        assert isinstance(run, Noisy)
        run.told = (1.0, 4.0, 5.0, 1.0, 6.0, 1.0, 6.0)
        assert run.coordinator.plan.capacity == 3 * STEPS
        run.begin()
        run.run()
        by_table = {"max_lag": (1, None)}
        assert run.coordinator.configuration == Configuration(2, {"max_lag": 2}, by_table)
        assert max(run.lags) == 2
    (one, first), (two, second) = sets(tmp_path)
    assert (one, two) == ({"max_lag": 1}, {"max_lag": 2})
    assert first < second


def test_what_somebody_sets_by_hand_stays(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), table(1), 0, tmp_path, updates=20, kind=Noisy) as run:
        assert isinstance(run, Noisy)
        run.told = (1.0, 4.0, 1.0, 4.0)
        run.begin()
        run.coordinator.concern(Configured).set({"max_lag": 0})
        run.run()
        assert run.coordinator.configuration == Configuration(1, {"max_lag": 0})
    firings = [line for line in read(tmp_path / "journal.jsonl") if "firing" in line]
    assert "set.max_lag" not in {line["trigger"] for line in firings}, "it fired in vain"


def test_it_holds_although_it_cannot_be_written_and_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[Configuration] = []
    full = True

    def keep(found: Configuration) -> None:
        if full:
            raise OSError(28, "No space left on device")
        kept.append(found)

    with troupe(Manual(2, 2), table(), 0, tmp_path, updates=20, kind=Noisy) as run:
        assert isinstance(run, Noisy)
        run.told = (4.0,)
        configured = run.coordinator.concern(Configured)
        configured._keep = keep
        run.begin()
        run.run(updates=10)
        assert run.coordinator.configuration.settings == {"max_lag": 1}
        assert "config.json cannot be written (No space left on device)" in caplog.text
        assert kept == []
        full = False
        run.coordinator.tick()
        run.coordinator.tick()
    assert kept == [Configuration(1, {"max_lag": 1}, {"max_lag": (1, None)})]


def test_it_is_written_down_before_the_journal_has_it(tmp_path: Path) -> None:
    """Or a run that is killed in between would give its number to something else, too."""
    kept: list[Configuration] = []

    def killed(found: Configuration) -> None:
        kept.append(found)
        raise KeyboardInterrupt

    with troupe(Manual(2, 2), table(), 0, tmp_path, updates=20, kind=Noisy) as run:
        assert isinstance(run, Noisy)
        run.told = (4.0,)
        run.coordinator.concern(Configured)._keep = killed
        run.begin()
        with pytest.raises(KeyboardInterrupt):
            run.run()
    assert kept == [Configuration(1, {"max_lag": 1}, {"max_lag": (1, None)})]
    assert sets(tmp_path) == []


@pytest.mark.parametrize(
    ("present", "value"), [(None, 2), (2, 3), (3, None), (7, None), (0.5, None)]
)
def test_what_follows_needs_no_memory(present: float | None, value: float | None) -> None:
    assert following((2, 3), present) == value


def test_it_travels_as_plain_data_and_says_what_it_does() -> None:
    found = decode_trigger(LEVELS.encode(), {}.__getitem__)
    assert found == LEVELS
    assert found.sets == (1, 2)
    assert found.words() == f"{NOISE} above 3, each time that it comes there: sets 1, then 2"


def plan_and(rows: Table, folder: Path) -> tuple[Plan, Table]:
    with troupe(Manual(2, 2), full_batch(1), 8, folder) as run:
        return run.coordinator.plan, full_batch(1) | rows


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({"set.max_lag": TimeTrigger(1.0)}, r"sets nothing: write SetTrigger\(when=TimeTrigger"),
        ({"set.lag": SetTrigger(TimeTrigger(1.0), 1)}, "'lag' cannot be set .*mean max_lag"),
        ({"set.max_lag": SetTrigger(TimeTrigger(1.0), 1.5)}, "max_lag must be a whole number"),
        ({"set.max_lag": SetTrigger(TimeTrigger(1.0), (1, 0, 1))}, "has a value twice"),
        ({"set.max_lag": SetTrigger(TimeTrigger(1.0), ())}, "sets nothing: give set=VALUE"),
        ({"set.max_lag": SetTrigger(TimeTrigger(1.0), math.inf)}, "must be a finite number"),
        ({"set.max_lag": SetTrigger(DataKeyTrigger("rewards"), 1)}, "does more than say when"),
        ({"learner.update": SetTrigger(TimeTrigger(1.0), 1)}, 'let its row be called "set.NAME"'),
        (
            {"set.max_lag": SetTrigger(ValueTrigger("mean", above=1), 1)},
            "unknown object key 'mean'",
        ),
        (
            {"set.max_lag": SetTrigger(Once(CountTrigger(episodes=0)), 1)},
            "episodes must be a whole",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_launch(rows: Table, why: str, tmp_path: Path) -> None:
    found = "\n".join(faults(*plan_and(rows, tmp_path)))
    assert re.search(why, found), found


# -- what the run itself knows ---------------------------------------------------------------------


class Playing(Troupe):
    """Each round ends two episodes, which began in a configuration that a test says."""

    def _act(self, actor: int | Member, call: Invoke) -> Done:
        done = super()._act(actor, call)
        returns, begun = self.ended(call)
        return Done(done.firing, done.version, returns=returns, lengths=(1,) * len(returns),
                    seconds=done.seconds, begun=begun)  # fmt: skip

    def ended(self, call: Invoke) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """The better of them by the present configuration, the other of the one before."""
        return (10.0 * call.configuration, 0.0), (call.configuration, 0)


class Heard(ValueTrigger):
    """Remembers what it was told."""

    def check(self, event: Event, now: float) -> Any:
        if isinstance(event, Published) and event.key == self.key:
            HEARD.append(event.value[0])
        return super().check(event, now)


HEARD: list[float] = []


def test_means_begin_anew_with_the_episodes_of_another_setting(tmp_path: Path) -> None:
    HEARD.clear()
    rows = full_batch(1) | {"set.max_lag": SetTrigger(Heard("mean_return_4", above=1e9), 0)}
    with troupe(Manual(1, 1), rows, 0, tmp_path, updates=30, kind=Playing) as run:
        coordinator = run.coordinator
        plan = msgspec.structs.replace(coordinator.plan, settable=(Changeable("level"),))
        coordinator.plan = plan
        run.begin()
        run.run(updates=6)
        assert math.isnan(HEARD[0])
        assert [*HEARD[1:]] == [0.0] * len(HEARD[1:])
        HEARD.clear()
        coordinator.concern(Configured).set({"env.level": 3})
        run.run(updates=20)
    known = [value for value in HEARD if not math.isnan(value)]
    # Four episodes of the new level, one a round; the others began before.
    assert sum(map(math.isnan, HEARD)) >= 3
    assert {*known} == {10.0}


def test_episodes_are_counted_as_they_end(tmp_path: Path) -> None:
    rows = full_batch(1) | {"set.max_lag": SetTrigger(Once(CountTrigger(episodes=5)), 0)}
    with troupe(Manual(1, 1), rows, 0, tmp_path, updates=30, kind=Playing) as run:
        run.begin()
        while not run.coordinator.configuration.number:
            run.step()
        written = run.coordinator.rounds.written_by(0)
    assert written == 3 * STEPS, "two episodes a round"


@pytest.mark.parametrize(
    "sixth", [Once(CountTrigger(episodes=5)), ValueTrigger("episodes_ended", above=105)]
)
def test_a_resumed_run_counts_its_episodes_on(sixth: Trigger, tmp_path: Path) -> None:
    rows = full_batch(1) | {"set.max_lag": SetTrigger(sixth, 0)}
    with troupe(Manual(1, 1), rows, 0, tmp_path, updates=30, kind=Playing) as run:
        run.coordinator.monitor.episodes = 100
        run.coordinator.concern(Returns).resumed({})
        run.begin()
        while not run.coordinator.configuration.number:
            run.step()
        written = run.coordinator.rounds.written_by(0)
    assert written == 3 * STEPS, "two episodes a round, and none of those before"


def test_episodes_that_are_played_again_are_not_counted_twice(tmp_path: Path) -> None:
    """At the checkpoint triggers knew of 106: the last six were not of rows that it counts."""
    rows = full_batch(1) | {"set.max_lag": SetTrigger(Once(CountTrigger(episodes=5)), 0)}
    with troupe(Manual(1, 1), rows, 0, tmp_path, updates=30, kind=Playing) as run:
        run.coordinator.monitor.episodes = 100
        run.coordinator.concern(Returns).resumed({"_most": 106})
        run.begin()
        while not run.coordinator.configuration.number:
            run.step()
        written = run.coordinator.rounds.written_by(0)
    assert written == 5 * STEPS, "with the 110th: the 105th was heard of before"


@pytest.mark.parametrize(("level", "anew"), [(3.0, False), (2.0, True)])
def test_a_mean_that_is_not_known_yet_is_none_only_where_the_level_is_another(
    level: float, anew: bool, tmp_path: Path
) -> None:
    """Then it is to be reached once more; else it is where it was before the run resumed."""
    HEARD.clear()
    rows = full_batch(1) | {"set.max_lag": SetTrigger(Heard("mean_return_4", above=1e9), 0)}
    with troupe(Manual(1, 1), rows, 0, tmp_path, updates=30, kind=Playing) as run:
        run.coordinator.configuration = Configuration(1, {"env.level": 3.0})
        run.coordinator.concern(Returns).resumed({"_env": {"level": level}, "_told": 9})
        run.begin()
        run.run(updates=6)
    assert math.isnan(HEARD[0]) == anew
    assert not math.isnan(HEARD[-1])
