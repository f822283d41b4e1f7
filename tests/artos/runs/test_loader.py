"""What a workload of the user's is loaded from is as it was afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.runs.loader import load_object, load_workload
from artos.specs.reference import Reference

OBJECT = """
from triggers.algorithms.dqn import workload as dqn

mine = dqn("CartPole-v1", actors=1, total_steps=100)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept_as_it_is.py"


@pytest.fixture(autouse=True)
def no_trace(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop(f"artos_user_{file.stem}", None)


def test_each_run_of_a_workload_has_its_own_environment(file: Path) -> None:
    """The file is imported once in a process that loads two runs of it."""
    file.write_text(OBJECT)
    before = load_object(f"{file}:mine").actor.final_observations
    envs = [
        load_workload(Reference(f"{file}:mine", settings)).actor.env
        for settings in ({"env": "Acrobot-v1"}, {})
    ]
    assert envs == ["Acrobot-v1", "CartPole-v1"]
    assert load_object(f"{file}:mine").actor.final_observations == before is False


@pytest.mark.parametrize("ends", ["KeyboardInterrupt", "SystemExit"])
def test_a_file_whose_import_was_interrupted_is_imported_anew(file: Path, ends: str) -> None:
    file.write_text(f"first = 1\nraise {ends}\nsecond = 2\n")
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        load_object(f"{file}:second")
    file.write_text("second = 2\n")
    assert load_object(f"{file}:second") == 2


@pytest.mark.parametrize(
    ("before", "found"),
    [
        (
            'if __name__ == "__main__":\n    ',
            "'mine' once it is imported, .*__main__",
        ),
        ("artos.run(1)\n", "'mine' once it is imported, .*a call that starts a run"),
        ("def make():\n    ", "has no object 'mine': did you mean mines"),
    ],
)
@pytest.mark.parametrize("what", ["mine = 1", "def mine(): pass"])
def test_an_object_that_the_import_does_not_reach_is_told_so(
    before: str, found: str, what: str, file: Path
) -> None:
    file.write_text(f"import artos\nmines = 2\n{before}{what}\n")
    with pytest.raises(Refused, match=found):
        load_object(f"{file}:mine")


DEFAULT = """
from triggers import SetTrigger, TimeTrigger
from triggers.algorithms.ppo import workload as ppo

def mine(target: float = 1, many: int = 2):
    made = ppo("CartPole-v1", actors=many)
    made.triggers["set.learner.lr"] = SetTrigger(TimeTrigger(9.0), target)
    return made
"""


def test_a_whole_number_that_is_the_default_of_a_float_is_one(file: Path) -> None:
    """A run that is resumed or replayed is given it as one, and is to be of the same workload."""
    file.write_text(DEFAULT)
    first = load_workload(Reference(f"{file}:mine", {}))
    again = load_workload(Reference(f"{file}:mine", {"target": 1.0, "many": 2}))
    rows = [repr(each.triggers["set.learner.lr"]) for each in (first, again)]
    assert rows[0] == rows[1]
    assert "set=1.0" in rows[0]
    assert first.actors == 2
