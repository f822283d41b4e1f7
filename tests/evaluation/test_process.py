"""A baseline's process answers, fails or hangs; in every case nothing of it is left behind."""

import sys
import venv
from pathlib import Path

import psutil
import pytest

from artos.errors import DeadlineExceeded
from evaluation.baselines.processes import BaselineFailed, measure, measure_ours, run

pytestmark = pytest.mark.processes

# Starts a daemon the way baselines do, in a session of its own, and writes its id to a file.
DAEMON = """
import pathlib, subprocess, sys
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
"""

LEAVE = """
import os, pathlib
pathlib.Path(f"/dev/shm/torch_{os.getpid()}_1").touch()
print(os.getpid())
"""


def gone(pid_file: Path) -> bool:
    return not psutil.pid_exists(int(pid_file.read_text()))


@pytest.mark.long
def test_a_script_of_ours_answers_with_rates_and_versions():
    rates, versions = measure_ours("baselines.one_file_ppo", "--seconds", "0.1", seconds=240)
    assert rates["steps_per_second"] > 0
    assert "torch" in versions


def test_what_a_rival_started_ends_with_it(tmp_path):
    pid_file = tmp_path / "pid"
    run([sys.executable, "-c", DAEMON, str(pid_file)], 30)
    assert gone(pid_file)


@pytest.mark.long
def test_what_a_rival_started_ends_at_the_deadline(tmp_path):
    pid_file = tmp_path / "pid"
    hanging = DAEMON + "\nchild.wait()"
    with pytest.raises(DeadlineExceeded) as caught:
        run([sys.executable, "-c", hanging, str(pid_file)], 8)
    assert caught.value.seconds == 8
    assert gone(pid_file)


def test_tensors_a_killed_rival_left_in_shared_memory_are_removed():
    pid = run([sys.executable, "-c", LEAVE], 30).strip()
    assert not Path(f"/dev/shm/torch_{pid}_1").exists()


def test_a_failure_says_how_it_ended():
    with pytest.raises(BaselineFailed) as caught:
        run([sys.executable, "-c", "raise SystemExit('no such buffer')"], 30)
    assert caught.value.status == 1
    assert "no such buffer" in str(caught.value)


def test_a_script_without_an_answer_is_a_failure():
    with pytest.raises(BaselineFailed, match="no result"):
        measure(Path(sys.executable), "buffer.workload", seconds=30)


def test_a_rival_sees_the_scripts_and_nothing_else_of_ours(tmp_path):
    venv.create(tmp_path, with_pip=False)
    with pytest.raises(BaselineFailed, match="No module named 'artos'"):
        measure(tmp_path / "bin" / "python", "baselines.processes", seconds=30)


def test_the_working_folder_is_not_on_a_rivals_path(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BaselineFailed, match="no result"):
        measure(Path(sys.executable), "buffer.workload", seconds=30)
