"""Every test runs in shared memory of its own and must leave nothing behind."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir

import hypothesis
import pytest
from helpers import footprint, keep_denormals, leaked

from artos.buffer.shm_folder import ShmFolder
from artos.system.logging_setup import logging_to

_FOLDER = pytest.StashKey[ShmFolder]()
_STATE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()

_MINUTES = {
    "test_algorithms", "test_cluster_life", "test_crossing", "test_damaged_records",
    "test_exact_replay", "test_kubernetes", "test_ray", "test_shown_commands", "test_slurm",
    "test_ssh", "test_suites_page", "test_tutorial",
}  # fmt: skip
"""The modules that take longest: begun late, one of them would run alone in the end."""

# How long an example takes says something of the machine, nothing of the code.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

# Else each of more than a thousand runs draws a picture, which takes longer than most of them.
os.environ.setdefault("ARTOS_CURVE", "no")

# Before torch is loaded: with several workers of pytest on a core its threads spin while they wait
# for threads that cannot run, and tests of policies take six times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Else each of thousands of processes compiles what it imports of ours anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    """Keep apart from runs of the user's: a folder of shared memory for this process's tests.

    It is a run's folder like others: if the tests are killed, whoever starts next removes it.
    """
    # What a shell starts in the background ignores Ctrl-C, and so would all that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_FOLDER] = ShmFolder.create("tests")
    os.environ["ARTOS_SHM"] = str(config.stash[_FOLDER].path)
    os.environ.pop("ARTOS_DEVICES", None)  # those of the user
    config.stash[_STATE] = tempfile.TemporaryDirectory(prefix="artos-tests-")
    os.environ["XDG_STATE_HOME"] = config.stash[_STATE].name


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove that folder."""
    del os.environ["ARTOS_SHM"], os.environ["XDG_STATE_HOME"]
    config.stash[_STATE].cleanup()
    config.stash[_FOLDER].remove()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that take longest."""
    items.sort(key=lambda item: item.path.stem not in _MINUTES)


@pytest.fixture(scope="session", autouse=True)
def _own_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where the processes of these tests work, apart from those of pytest's other workers.

    CRIU has a dumped process make a folder there: two dumps in one directory may collide.
    """
    with chdir(tmp_path_factory.mktemp("work")):
        yield


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What our modules log meanwhile."""
    lines: list[str] = []
    with logging_to(lines.append):
        yield lines


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw their learning curves, as they do for users."""
    monkeypatch.delenv("ARTOS_CURVE")


@pytest.fixture
def atari() -> None:
    """Skip where the extra is not installed."""
    if importlib.util.find_spec("ale_py") is None:
        pytest.skip("needs the extra: pip install 'artos[atari]'")


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """Fails a test that leaves processes, segments, threads, ZeroMQ contexts or sockets."""
    before, path = footprint(), sys.path[:]
    yield
    keep_denormals()
    sys.path[:] = path  # a run leaves the user's folder there for good, and there are thousands
    assert not (left := leaked(before)), "left behind:\n  " + "\n  ".join(left)
