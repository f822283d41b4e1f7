"""`artos doctor`: what it finds here, and what it advises on machines that lack something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.cli.__main__ import main
from workers.checkpoint import tiers
from workers.checkpoint.tiers import Tier
from workers.host import doctor
from workers.host.doctor import Cpus, HostReport, Missing, ProcessLimits, Shm

NAMES = ["memory", "freeze", "checkpoint", "clone", "fork", "pin"]
ROOMY = Shm("/dev/shm", 8 * 2**30, 4 * 2**30)
WIDE = ProcessLimits(nofile=1_048_576, nproc=None)
HERE = {"memory": Tier(True, "always")}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    tiers.probe.cache_clear()
    yield
    tiers.probe.cache_clear()


def test_json_has_every_tier_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["tiers"]) == NAMES
    for tier in report["tiers"].values():
        assert set(tier) == {"available", "reason", "fix"}
        assert tier["reason"]
    assert report["cpus"]["usable"]
    assert 0 < report["shm"]["free"] <= report["shm"]["size"]
    assert set(report["limits"]) == {"nofile", "nproc"}


def test_the_text_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(NAMES)]] == NAMES
    assert {line.split()[1] for line in lines[: len(NAMES)]} <= {"yes", "no"}
    for start in ("CPUs ", "shm ", "limits "):
        assert any(line.startswith(start) for line in lines)


def test_a_bare_machine_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing installed, set-up failed: still exit status 0, every reason with its remedy."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ARTOS_CACHE", str(tmp_path))
    monkeypatch.delenv("ARTOS_CRIU", raising=False)
    (tmp_path / "criu-missing").write_text("no network\nplug it in, then artos setup criu\n")
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "missing  checkpoint, clone: no network" in said
    assert "fix:  plug it in, then artos setup criu" in said
    assert "missing  pin: numactl is not installed" in said
    assert "fix:  apt-get install numactl" in said
    assert "memory      yes" in said


@pytest.mark.parametrize(
    ("shm", "limits", "what", "fix"),
    [
        (Shm("/dev/shm", 2**26, 2**26), WIDE, "/dev/shm has only 64 MiB free", "size=2G /dev/shm"),
        (ROOMY, ProcessLimits(256, None), "only 256 open files", "ulimit -n"),
        (ROOMY, ProcessLimits(None, 100), "only 100 processes", "ulimit -u"),
    ],
    ids=["shm", "nofile", "nproc"],
)
def test_narrow_limits_are_told(shm: Shm, limits: ProcessLimits, what: str, fix: str) -> None:
    (found,) = doctor.missing(HERE, shm, limits)
    assert what in found.what
    assert fix in found.fix


def test_one_remedy_for_several_tiers_is_told_once() -> None:
    lacking = Tier(False, "no CRIU", "artos setup criu")
    found = doctor.missing(HERE | {"clone": lacking, "fork": lacking}, ROOMY, WIDE)
    assert found == [Missing("clone, fork: no CRIU", "artos setup criu")]


def test_nothing_missing_is_said_so() -> None:
    report = HostReport(HERE, Cpus((0, 1), 4, 2.5, {0: 0, 1: 0}), ROOMY, WIDE, [])
    assert doctor.text(report).splitlines() == [
        "memory  yes  always",
        "",
        "CPUs    2 of 4 usable (0 1), quota 2.5, nodes: 1",
        "shm     4.0 GiB of 8.0 GiB free in /dev/shm",
        "limits  open files 1,048,576, processes unlimited",
        "",
        "nothing is missing",
    ]
