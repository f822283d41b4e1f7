"""EnvPool's environments in real runs: actors that hold a pool are killed, and are made anew."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from named import acting
from real_runs import Artos, kill_each

from evaluation.baselines.environments import BaselineAbsent, prepare

pytestmark = [pytest.mark.long, pytest.mark.processes]


@pytest.fixture
def _with_envpool(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter with what is installed here and, after that, EnvPool; else the test is
    skipped.
    """
    try:
        pool = prepare("envpool")
    except BaselineAbsent as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (theirs,) = pool.folder.glob("lib/python*/site-packages")
    (site / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{theirs}\n")
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))


@pytest.mark.usefixtures("_with_envpool")
def test_it_goes_on_whichever_actor_is_killed(start: Callable[..., Artos], home: Path) -> None:
    """And once more where the run is resumed."""
    folder = home / "pooled"
    size = ("--actors", 2, "--set", "envs=4", "--set", "steps=32")
    limits = ("--total-steps", 0, "--total-updates", 100_000)
    env = ("--env", "envpool:CartPole-v1")
    run = start("run", "ppo", *env, *size, *limits, "--run-dir", folder, "--json")
    kill_each(run, folder, acting(0, 1), ("learner", "actor 0", "actor 1"))
    ended = json.loads((folder / "summary.json").read_text())
    assert (ended["restarts"], ended["rows_lost"]) == (2, 0)
    assert ended["episodes"] > 0
    wanted = ended["updates"] + 5
    again = start("run", "--resume", folder, "--total-updates", wanted, "--json").wait()
    assert again.status == 0, again.err
    assert again.summary["updates"] == wanted
    assert not run.survivors()
