"""An installed ARTOS, away from its clone: a wheel built by pip, in an environment of its own.

What it depends on is not installed anew, which would take minutes and gigabytes: the environment
sees that of these tests, behind its own. Nothing of the clone is among it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

from artos.version import VERSION

pytestmark = [pytest.mark.long, pytest.mark.processes]

FLOORS = ("artos", "triggers", "head", "workers", "deploy", "evaluation")
FILES = ("pyproject.toml", "README.md", "LICENSE")


def command(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command without what these tests were started with."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=kept | environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which ``pip install .`` was run."""
    folder = tmp_path_factory.mktemp("installed")
    clone, venv = folder / "clone", folder / "venv"
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, clone / floor, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, clone)
    made = command(sys.executable, "-m", "venv", "--without-pip", venv, cwd=folder)
    assert made.returncode == 0, made.stderr
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", venv / "bin" / "python")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet")
    installed = command(*pip, "install", *offline, ".", cwd=clone)
    assert installed.returncode == 0, installed.stderr
    shutil.rmtree(clone)
    return venv


@pytest.fixture
def artos(venv: Path, tmp_path: Path) -> Callable[..., str]:
    """Run the installed ``artos`` in an empty folder; returns what it printed."""

    def run(*words: str | Path, **environment: str) -> str:
        done = command(venv / "bin" / "artos", *words, cwd=tmp_path, **environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run


def test_it_comes_from_the_wheel_and_lacks_nothing(venv: Path, tmp_path: Path) -> None:
    code = f"import importlib as i; print(*[i.import_module(n).__file__ for n in {FLOORS}])"
    done = command(venv / "bin" / "python", "-c", code, cwd=tmp_path)
    assert all(Path(each).is_relative_to(venv) for each in done.stdout.split()), done.stderr
    check = command(
        sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "check", cwd=tmp_path
    )
    assert "artos" not in check.stdout, check.stdout


def test_it_trains(artos: Callable[..., str], tmp_path: Path) -> None:
    summary = json.loads(artos("run", "ppo", "--total-steps", "2048", "--json"))
    assert (summary["outcome"], summary["steps"]) == ("done", 2048)
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "curve.png").stat().st_size > 1000


def test_the_scripts_are_there(artos: Callable[..., str], tmp_path: Path, venv: Path) -> None:
    artos("keys", "keys")
    for role, more in (("head", ()), ("worker", ("--name", "w1"))):
        (tmp_path / role).mkdir()
        place = {"UNITS": str(tmp_path / role), "ETC": str(tmp_path / role)}
        artos("setup", role, "tcp://127.0.0.1:7700", "keys", *more, **place)
        unit = (tmp_path / role / f"artos-{role}.service").read_text()
        assert f"ExecStart={venv}/bin/artos {role}" in unit
    assert "--name w1" in (tmp_path / "worker" / "worker.env").read_text()


def test_doctor_names_a_command_that_is_there(artos: Callable[..., str], tmp_path: Path) -> None:
    nowhere = {"ARTOS_CACHE": str(tmp_path / "cache"), "PATH": "/nowhere"}
    report = json.loads(artos("doctor", "--json", **nowhere))
    fixes = [each["fix"] for each in report["missing"]]
    assert "artos setup criu" in fixes
    assert not any("make " in fix for fix in fixes)
    said = artos("setup", "--help")
    assert "artos setup criu" in said


def test_setup_brings_criu_or_says_why(venv: Path, tmp_path: Path) -> None:
    """Where nobody may checkpoint and nothing is there: it says so, and what to do from here."""
    stubs = tmp_path / "bin"
    stubs.mkdir()
    (stubs / "id").write_text("#!/bin/sh\n[ $1 = -u ] && echo 1000 || echo somebody\n")
    for name in ("criu", "unshare"):
        (stubs / name).write_text("#!/bin/sh\nexit 1\n")
    for each in stubs.iterdir():
        each.chmod(0o755)
    environment = {"PATH": f"{stubs}:{os.environ['PATH']}", "ARTOS_CACHE": str(tmp_path / "cache")}
    done = command(venv / "bin" / "artos", "setup", "criu", cwd=tmp_path, **environment)
    assert done.returncode == 1, done.stderr
    assert "actors cannot be checkpointed here" in done.stderr
    assert "artos setup criu" in done.stderr


def test_as_a_module_and_its_version(venv: Path, tmp_path: Path) -> None:
    done = command(venv / "bin" / "python", "-m", "artos", "--version", cwd=tmp_path)
    assert done.stdout == f"artos {VERSION}\n", done.stderr
