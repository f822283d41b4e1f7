"""The head's unit when the time that its engine gives it is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.launchers import unit
from deploy.launchers.cluster import Cluster
from deploy.launchers.engines.slurm import Engine
from deploy.launchers.launcher import EngineFailed, Here

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The unit takes signals of its process for good."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("told", "ends", "seconds", "asks"),
    [
        ("USR1", False, 3_600.0, True),
        ("USR1", False, 0.0, True),  # Slurm did not say
        ("USR1", False, 100.0, False),  # the next one would end as soon as it has begun, too
        ("USR1", True, 3_600.0, False),  # by `artos down`, before the runs had been saved
        ("TERM", False, 3_600.0, False),  # Slurm itself requeues it, or somebody has cancelled it
    ],
)
def test_a_head_whose_time_is_over_is_requeued_once_its_runs_are_saved(
    told: str, ends: bool, seconds: float, asks: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    lab = Cluster(name="lab", engine="slurm", folder=str(tmp_path), least=1, most=1)
    lab.logs.mkdir()
    if ends:
        lab.end_file.touch()
    saves = (
        f"trap 'touch {tmp_path}/saved; kill $!; exit 0' TERM; "
        f"sleep 60 & kill -{told} $PPID; wait $!"
    )
    asked: list[bool] = []
    monkeypatch.setattr(unit, "head_command", lambda *_, any_port: ["sh", "-c", saves])
    monkeypatch.setattr(Engine, "here", lambda _: Here(seconds=seconds))
    monkeypatch.setattr(
        Engine, "start_again", lambda _: asked.append((tmp_path / "saved").exists())
    )
    assert unit.keep_head(lab) == 0
    assert (tmp_path / "saved").exists()
    assert asked == [True] * asks


def test_a_head_is_told_once_however_many_signals_its_engine_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would have it leave its runs to themselves."""
    lab = Cluster(name="lab", engine="slurm", folder=str(tmp_path), least=1, most=1)
    lab.logs.mkdir()
    told = tmp_path / "told"
    ends = (
        f"trap 'echo told >>{told}' TERM; kill -USR1 $PPID; "
        f"until [ -s {told} ]; do sleep 0.05; done; kill -TERM $PPID; sleep 0.5 & wait $!; exit 0"
    )
    monkeypatch.setattr(unit, "head_command", lambda *_, any_port: ["sh", "-c", ends])
    monkeypatch.setattr(Engine, "here", lambda _: Here(seconds=100.0))
    assert unit.keep_head(lab) == 0
    assert told.read_text() == "told\n"


def test_a_head_asks_slurm_to_requeue_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Cluster(name="lab", engine="slurm", folder=str(tmp_path), least=1, most=1)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/asked\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    Engine(lab).start_again()
    assert (tmp_path / "asked").read_text() == "requeue 17\n"
    scontrol.write_text("#!/bin/sh\necho 'requeue is disabled' >&2\nexit 1\n")
    with pytest.raises(EngineFailed, match="requeue is disabled"):
        Engine(lab).start_again()


@pytest.mark.parametrize(("engine", "token"), [("ray", "RAY_AUTH_TOKEN"), ("slurm", "SLURM_JWT")])
def test_what_shows_an_engine_who_we_are_is_the_keepers_alone(
    engine: str, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons pass their variables on to users' code."""
    monkeypatch.setenv(token, "a secret")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    lab = Cluster(
        name="lab",
        engine=engine,
        folder=str(tmp_path),
        least=1,
        most=1,
        slots=1,
        head="tcp://127.0.0.1:7700",
    )
    lab.logs.mkdir()
    seen = tmp_path / "seen"
    monkeypatch.setattr(unit, "head_command", lambda *_, any_port: ["sh", "-c", f"env >{seen}"])
    assert unit.keep_head(lab) == 0
    assert "RAY_ADDRESS=10.0.0.1:6379" in seen.read_text()
    assert f"{token}=a secret" not in seen.read_text()
    assert os.environ[token] == "a secret", "the keeper may need it"

    monkeypatch.setattr(unit, "load", lambda _: lab)
    found: list[str | None] = []
    monkeypatch.setattr(unit, "artos", lambda _: found.append(os.environ.get(token)) or 0)
    assert unit.main([str(tmp_path), "0"]) == 0
    assert found == [None]
