"""What a notebook has made reaches the processes of a run by a file that is written for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

from artos.errors import Refused
from artos.runs.loader import load_object
from artos.specs.workload import Workload
from deploy.api.cells import kept
from deploy.api.naming import name_of
from triggers.algorithms.ppo import workload as ppo

PROMPT = {"__name__": "__main__"}

NOTEBOOK = (
    ROOT.joinpath("docs/examples/my_reinforce.py").read_text()
    + """
import artos, numpy as np, my_width

def build(lr: float = 1e-3, total_steps: int = 1) -> "artos.Workload":
    from triggers.algorithms.ppo import workload as ppo
    hidden = (my_width.WIDTH,)
    return ppo(env="CartPole-v1", total_steps=total_steps, actors=1, lr=lr, hidden=hidden)

for mine in (workload, build):
    result = artos.run(mine, total_steps=1500, lr=1e-3)
    name, action = result.folder.name.split("_")[1], result.load().act(np.zeros(4))
    print(result.outcome, name, action in (0, 1))
"""
)


def test_a_workload_is_kept_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = ppo(env="CartPole-v1", gamma=0.9)
    named = name_of(mine, {**PROMPT, "mine": mine})
    assert named.startswith(f"{tmp_path}/cell_mine_")
    assert named.endswith(".py:mine")
    found = load_object(named)
    assert isinstance(found, Workload)
    assert found is not mine
    assert found.settings == mine.settings
    assert name_of(mine, {**PROMPT, "mine": mine}) == named, "nor is it written again"


def test_what_changes_is_another_file(tmp_path: Path) -> None:
    files = {kept(ppo(env="CartPole-v1", gamma=g), "mine", tmp_path) for g in (0.9, 0.99)}
    assert len(files) == 2


@pytest.mark.parametrize("given", [lambda: None, 3])
def test_what_has_no_name_is_refused(given: object) -> None:
    with pytest.raises(Refused, match="cannot be found by the processes of a run"):
        name_of(given, PROMPT)


def test_a_class_is_no_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine:
        """A learner of the notebook's, say."""

    Mine.__qualname__ = "Mine"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match="Mine is a class: give a Workload that is made with it"):
        name_of(Mine, {**PROMPT, "Mine": Mine})
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_pickled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"mine stands in no file, and .*lock.*%%writefile mine\.py"):
        kept(threading.Lock(), "mine", tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.processes
def test_classes_and_functions_of_a_notebook_are_run(tmp_path: Path) -> None:
    """As a prompt does, which has no file: not even for the run's processes to import."""
    (tmp_path / "my_width.py").write_text("WIDTH = 16\n")
    done = subprocess.run(
        [sys.executable, "-"], input=NOTEBOOK, cwd=tmp_path, capture_output=True, text=True,
        timeout=PATIENCE, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["done workload True", "done build True"]
