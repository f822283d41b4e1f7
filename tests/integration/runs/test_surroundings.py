"""What a run finds around it: refused in words where it cannot be, and nothing is left there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Artos, Outcome, shared_memory

from artos.pool.folder import pool_folder

RUN = ("run", "counting.py:workload", "--total-steps", "512", "--run-dir", "r", "--json")
PPO = ("run", "ppo", "--env", "CartPole-v1", "--device", "pool", "--run-dir", "r", "--json")
_MANY = ",".join(f"cpu:n{number}" for number in range(2000))
_ROOT = os.geteuid() == 0  # others may not write there
_NO_ROOM = "MB free, this run needs" if _ROOT else "it cannot be written"
_NO_POOL = "it holds what no pool has made" if _ROOT else "it belongs to user 0"

VARIABLES: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    "no shared memory": (RUN, "ARTOS_SHM", "/nowhere", "there is no such folder"),
    "relative shared memory": (RUN, "ARTOS_SHM", "here", "its path is not absolute"),
    "a file as shared memory": (RUN, "ARTOS_SHM", "/etc/passwd", "it is not a folder"),
    "shared memory without room": (RUN, "ARTOS_SHM", "/sys/kernel", _NO_ROOM),
    "a pool in the root": (RUN, "ARTOS_POOL", "/", _NO_POOL),
    "a pool nowhere": (RUN, "ARTOS_POOL", "/nowhere/pool", "cannot be made in /nowhere"),
    "a relative pool": (RUN, "ARTOS_POOL", "pool", "its path is not absolute"),
    "a file as a pool": (RUN, "ARTOS_POOL", "/etc/passwd", "it is a link or a file"),
    "2,000 devices": (PPO, "ARTOS_DEVICES", _MANY, "2,000 devices are listed"),
    "a device twice": (PPO, "ARTOS_DEVICES", "cpu:a,cpu:a", "'cpu:a' is listed 2 times"),
    "no devices": (PPO, "ARTOS_DEVICES", ",;,", "unknown device"),
}


def refused(outcome: Outcome, words: str, home: Path) -> None:
    assert outcome.status == 2, outcome.err
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    assert not outcome.out
    assert not (home / "r").exists()
    assert not shared_memory()
    assert not pool_folder().exists()


@pytest.mark.parametrize("case", VARIABLES)
def test_a_variable_that_names_no_such_place(
    case: str, artos: Callable[..., Outcome], home: Path
) -> None:
    command, name, value, words = VARIABLES[case]
    refused(artos(*command, **{name: value}), words, home)


LIMITS = {
    "files of 1 KB": ("-f 1", "files may have 1,024 bytes at most here (ulimit -f)"),
    "files of 100 KB": ("-f 100", "files may have 0.1 MB at most here (ulimit -f)"),
    "eight files at once": ("-n 8", "8 files may be open at once here (ulimit -n)"),
}


@pytest.mark.parametrize("case", LIMITS)
def test_a_limit_that_is_too_low(case: str, start: Callable[..., Artos], home: Path) -> None:
    limit, words = LIMITS[case]
    within = ("bash", "-c", f'ulimit {limit}; exec "$@"', "-")
    refused(start(*RUN, "--total-steps", "60000", within=within).wait(), words, home)


def test_a_working_folder_that_was_deleted(start: Callable[..., Artos], home: Path) -> None:
    within = ("bash", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "-")
    outcome = start(*RUN, within=within).wait()
    refused(outcome, "the working folder cannot be used", home)


def test_an_answer_for_which_there_is_no_room(start: Callable[..., Artos], home: Path) -> None:
    outcome = start(*RUN, within=("bash", "-c", 'exec "$@" > /dev/full', "-")).wait()
    assert outcome.status == 1
    assert "No space left on device" in outcome.err
    assert "Traceback" not in outcome.err
    assert (home / "r" / "summary.json").exists(), "the run itself has ended well"


@pytest.mark.parametrize("table", ["link", "noise"])
def test_a_run_beside_a_damaged_pool_goes_on(
    table: str, artos: Callable[..., Outcome], home: Path
) -> None:
    pool_folder().mkdir(0o700)
    if table == "link":
        (pool_folder() / "table").symlink_to("/nowhere")
    else:
        (pool_folder() / "table").touch(0o600)
        (pool_folder() / "table").write_bytes(os.urandom(4096))
    outcome = artos(*RUN)
    assert outcome.status == 0, outcome.err
    assert "CPU slots are not shared with other runs" in outcome.err
    assert "table is damaged" in outcome.err
    looked = artos("pool")
    assert looked.status == 2
    assert "`artos clean` removes it" in looked.err
    cleaned = artos("clean")
    assert cleaned.status == 0
    assert f"removed {pool_folder()}" in cleaned.out.splitlines()
    assert (home / "r" / "summary.json").exists()
