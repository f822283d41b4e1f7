"""The tiers of a host: decided from what was found, and found by trying."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.errors import CriuUnavailable
from workers.checkpoint import tiers
from workers.checkpoint.criu import find
from workers.checkpoint.tiers import Findings, Tier, tiers_of

NAMES = ["memory", "freeze", "checkpoint", "clone", "fork", "pin"]
ALWAYS = {"memory", "freeze", "fork"}
FULL = Findings(criu="by CRIU 4.1.1")


def lacking(**found: str) -> dict[str, Tier]:
    """The tiers that are missing on a host with this fault."""
    found.setdefault("criu", FULL.criu)
    return {n: t for n, t in tiers_of(Findings(**found)).items() if not t.available}


# -- deciding ------------------------------------------------------------------------------------


def test_a_host_with_everything_has_every_tier() -> None:
    assert lacking() == {}
    assert list(tiers_of(FULL)) == NAMES
    assert tiers_of(FULL)["checkpoint"].reason == FULL.criu


@pytest.mark.parametrize(
    ("found", "names", "reason", "fix"),
    [
        ({"no_criu": "no network", "criu_fix": "plug it in"}, "checkpoint clone",
         "no network", "plug it in"),
        ({"no_rights": "CRIU needs root"}, "checkpoint clone", "CRIU needs root", "as root"),
        ({"no_binding": "pycriu is not installed"}, "checkpoint clone",
         "pycriu is not installed", "artos setup criu"),
        ({"check": "no PTRACE"}, "checkpoint clone",
         "criu check: no PTRACE", "artos setup criu"),
        ({"no_namespace": "not permitted"}, "clone", "not permitted", "--privileged"),
        ({"no_numactl": "numactl is not installed"}, "pin", "numactl is not installed",
         "apt-get install numactl"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_fault_takes_its_tiers_and_says_the_remedy(
    found: dict[str, str], names: str, reason: str, fix: str
) -> None:
    missing = lacking(**found)
    assert list(missing) == names.split()
    for tier in missing.values():
        assert tier.reason == reason
        assert fix in tier.fix


def test_nothing_takes_the_tiers_that_need_no_privilege() -> None:
    faults = dict.fromkeys(Findings.__struct_fields__, "broken")
    assert {n for n, t in tiers_of(Findings(**faults)).items() if t.available} == ALWAYS


# -- trying --------------------------------------------------------------------------------------


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CRIU that counts its checks in a file, on a PATH with nothing else."""
    binary = tmp_path / "bin" / "criu"
    binary.parent.mkdir()
    script = f'case "$1" in --version) echo Version: 4.2;; *) echo "$*" >>{tmp_path}/asked;; esac\n'
    binary.write_text(f"#!/bin/sh\n{script}")
    binary.chmod(0o755)
    monkeypatch.setenv("ARTOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(binary.parent))
    monkeypatch.delenv("ARTOS_CRIU", raising=False)
    monkeypatch.setattr(find, "FEATURES", tmp_path / "features")
    monkeypatch.setattr(tiers, "rights_missing", str)
    return binary


def asked(binary: Path) -> list[str]:
    return (binary.parent.parent / "asked").read_text().splitlines()


def test_what_criu_says_of_a_kernel_is_asked_once(fake: Path) -> None:
    assert tiers.try_host().check == ""
    assert asked(fake) == ["check" if os.geteuid() == 0 else "check --unprivileged"]
    assert tiers.try_host().check == ""
    assert len(asked(fake)) == 1
    os.utime(fake, ns=(1, 1))  # another build
    tiers.try_host()
    assert len(asked(fake)) == 2


def test_a_complaint_is_quoted_and_asked_again(fake: Path) -> None:
    good = fake.read_text()
    fake.write_text(good + '[ "$1" = --version ] || { echo "Error: no luck"; echo bye; exit 1; }\n')
    assert tiers.try_host().check == "Error: no luck"
    fake.write_text(good)
    assert tiers.try_host().check == ""


def test_a_cache_that_cannot_be_written_only_costs_time(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_CACHE", "/proc/nowhere")
    assert [tiers.try_host().check for _ in range(2)] == ["", ""]
    assert len(asked(fake)) == 2


@pytest.mark.usefixtures("fake")
def test_commands_that_are_not_there_are_named() -> None:
    found = tiers.try_host()
    assert found.no_numactl == "numactl is not installed"
    assert found.no_namespace == "unshare is not installed"


def test_without_rights_criu_is_not_even_asked(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "rights_missing", lambda: "CRIU needs root")
    assert tiers_of(tiers.try_host())["checkpoint"].reason == "CRIU needs root"
    assert not (fake.parent.parent / "asked").exists()


def test_a_set_up_that_failed_is_repeated(fake: Path) -> None:
    fake.unlink()
    find.version_of.cache_clear()
    missing = find.cache_folder() / "criu-missing"
    missing.parent.mkdir()
    missing.write_text("no network\nplug it in\n")
    tier = tiers_of(tiers.try_host())["checkpoint"]
    assert (tier.reason, tier.fix) == ("no network", "plug it in")


@pytest.fixture
def fresh() -> Iterator[None]:
    tiers.probe.cache_clear()
    yield
    tiers.probe.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_this_host_has_what_it_says() -> None:
    """On the real thing: checkpoint is promised exactly where `criu check` is content."""
    found = tiers.probe()
    assert list(found) == NAMES
    assert all(tier.reason for tier in found.values())
    assert all(bool(tier.fix) != tier.available for tier in found.values())
    assert found["checkpoint"].available == _content()
    assert tiers.probe() is found


def _content() -> bool:
    if not importlib.util.find_spec("pycriu"):
        return False
    try:
        command = [find.find_criu(), "check"]
    except CriuUnavailable:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
