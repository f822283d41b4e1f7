"""``artos set``: what a learner is sent from then on, what the journal says, what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from elastic_loop import Troupe, full_batch, troupe

from artos.errors import Refused
from artos.protocol.invocations import Done, Invoke
from artos.specs.actor_count import Manual
from artos.specs.configuration import Changeable, Configuration
from head.run.concerns.configured import Configured
from triggers.journal import read


class Recorded(Troupe):
    """Remembers the settings that each update came with."""

    def _learn(self, call: Invoke) -> Done:
        self.settings = [*getattr(self, "settings", []), call.settings]
        return super()._learn(call)


def configured(run: Troupe, configuration: Configuration, failing: bool = False) -> Configured:
    """The concern of a run whose learner lets its step size be changed."""
    plan = msgspec.structs.replace(run.coordinator.plan, changeable=(Changeable("lr", gt=0),))
    run.coordinator.plan = plan

    def keep(found: Configuration) -> None:
        if failing:
            raise OSError(28, "No space left on device")

    return Configured(run.coordinator, full_batch(), configuration, keep)


def journalled(folder: Path) -> list[dict[str, object]]:
    return [line for line in read(folder / "journal.jsonl") if "set" in line]


def test_updates_after_it_have_the_new_value_and_the_journal_says_since_when(
    tmp_path: Path,
) -> None:
    with troupe(Manual(1, 1), full_batch(), 6, tmp_path, kind=Recorded) as run:
        assert isinstance(run, Recorded)
        concern = configured(run, Configuration())
        run.begin()
        run.run(updates=2)
        assert concern.set({"learner.lr": 0.5}) == Configuration(1, {"learner.lr": 0.5})
        run.run()
    assert run.settings == [{}] * 2 + [{"lr": 0.5}] * 4
    version = {"version": 2}
    assert journalled(tmp_path) == [{"set": {"learner.lr": 0.5}, "configuration": 1, **version}]


@pytest.mark.parametrize("failing", [False, True])
def test_what_is_refused_or_cannot_be_kept_changes_nothing(failing: bool, tmp_path: Path) -> None:
    with troupe(Manual(1, 1), full_batch(), 2, tmp_path) as run:
        concern = configured(run, Configuration(), failing)
        run.begin()
        wrong, why = ({"learner.lr": 0.5}, "No space") if failing else ({"lr": 1.0}, "cannot be")
        with pytest.raises(Refused, match=why):
            concern.set(wrong)
        assert run.coordinator.configuration == Configuration()
    assert journalled(tmp_path) == []


def test_a_run_that_goes_on_has_what_was_set_as_far_as_it_may_be_set_still(
    tmp_path: Path,
) -> None:
    with troupe(Manual(1, 1), full_batch(), 2, tmp_path) as run:
        configured(run, Configuration(3, {"learner.lr": 0.5, "learner.gone": 1.0})).begin()
        assert run.coordinator.configuration == Configuration(4, {"learner.lr": 0.5})
    assert journalled(tmp_path)[0]["set"] == {"learner.lr": 0.5}
