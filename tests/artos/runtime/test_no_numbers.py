"""A text where a number belongs is refused by the attribute's name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import ROOT

from artos.runtime.register import register
from artos.specs.keys import DataKey, ObjectKey
from artos.specs.reference import Reference

GIVEN = """
from dataclasses import replace
from artos import Changeable
from my_actor import workload as made

def workload(of: str, name: str, value: str):
    found = made()
    value = eval(value)
    if of == "workload":
        return replace(found, **{name: value})
    setattr(found.actor if of == "actor" else found.learner, name, value)
    return found
"""


@pytest.mark.parametrize(
    ("of", "name", "value", "says"),
    [
        ("actor", "history", "'8'", "Player.history must be a number, not '8'"),
        ("actor", "every", "None", "Player.every must be a number, not None"),
        ("actor", "envs", "'2'", "Player.envs must be a number, not '2'"),
        ("workload", "steps", "'16'", "steps must be a number, not '16'"),
        ("workload", "weight", "'1'", "weight must be a number, not '1'"),
        ("workload", "priority", "[1]", "priority must be a number, not [1]"),
        ("workload", "total_updates", "'9'", "total_updates must be a number, not '9'"),
        ("learner", "changeable", "'lr'", "changeable is 'lr': list what is, as (Changeable('"),
        ("learner", "changeable", "('lr', 'k')", "has 'k': write Changeable('k')"),
        ("learner", "changeable", "Changeable('lr')", "Gradient.changeable is Changeable("),
        (
            "learner", "changeable", "(Changeable('lr', ge='0'),)",
            "Gradient.changeable: 'lr': ge must be a number, not '0'",
        ),
        (
            "actor", "changeable", "(Changeable('wind', le='9'),)",
            "Player.changeable: 'wind': le must be a number, not '9'",
        ),
    ],
)  # fmt: skip
def test_it_is_named(of: str, name: str, value: str, says: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_actor.py", tmp_path)
    (tmp_path / "given.py").write_text(GIVEN)
    settings = {"of": of, "name": name, "value": value}
    found = register(Reference(f"{tmp_path}/given.py:workload", settings, str(tmp_path)), 1)
    assert any(says in fault for fault in found.faults), found.faults


@pytest.mark.parametrize("kind", [DataKey, ObjectKey])
def test_so_is_a_shape(kind: type[DataKey | ObjectKey]) -> None:
    (fault,) = kind("heights", ("8",)).faults()  # type: ignore[arg-type]
    assert "'heights': shape must be whole numbers, as (8,), not ('8',)" in fault
