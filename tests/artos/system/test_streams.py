"""The command works whatever its streams, its locale and the names of its folders are like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def artos(
    arguments: str, folder: Path, closed: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command line from a shell, with streams ``closed`` as it writes that.

    In shared memory of its own: in that of other tests there may be what their runs left.
    """
    shm = folder / "shm"
    shm.mkdir(exist_ok=True)
    own = {"ARTOS_SHM": str(shm), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m deploy.cli {arguments} {closed}', sys.executable],
        cwd=folder, capture_output=True, check=False, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT), **own, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_an_answer_comes_without_the_other_streams(closed: str, tmp_path: Path) -> None:
    done = artos("clean --json", tmp_path, closed)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"removed": []}, b"")


def test_a_complaint_does_not_go_where_an_answer_belongs(tmp_path: Path) -> None:
    done = artos("clean nothing --json", tmp_path, "2>&-")
    assert (done.returncode, done.stdout) == (2, b"")


def test_nothing_is_printed_where_nobody_listens(tmp_path: Path) -> None:
    assert artos("clean", tmp_path, ">&- 2>&- <&-").returncode == 0


def test_names_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    run = tmp_path / "é ü 日本"
    (run / "images-1").mkdir(parents=True)
    (run / "run.lock").touch()
    done = artos("clean 'é ü 日本' --json", tmp_path, **ASCII)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {"removed": ["é ü 日本/images-1"]}


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    done = artos("clean", folder)
    assert done.returncode == 2
    assert b"caf\\udce9' is not UTF-8: rename it" in done.stderr
