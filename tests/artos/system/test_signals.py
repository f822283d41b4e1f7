"""What requests to stop do, and what they wait for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.system import signals
from artos.system.signals import StopRequests


def stop(times: int = 1) -> None:
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_first_drains_and_the_second_raises() -> None:
    drained: list[int] = []
    with StopRequests() as requests, requests.draining(lambda: drained.append(1)):
        stop()
        assert drained == [1]
        with pytest.raises(KeyboardInterrupt):
            stop()
        stop()  # whatever is left is being removed
        assert drained == [1]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_is_undisturbed_is_done_to_its_end(times: int) -> None:
    did: list[str] = []
    with StopRequests() as requests, requests.draining(lambda: did.append("drained")):
        try:
            with requests.undisturbed():
                stop(times)
                did.append("a process was made and written down")
        except KeyboardInterrupt:
            did.append("stopped")
        assert did == ["a process was made and written down", "drained"] + ["stopped"] * (times > 1)


def test_while_nothing_is_there_yet_any_raises() -> None:
    with StopRequests(), pytest.raises(KeyboardInterrupt):
        stop()


def test_an_interrupt_while_a_class_is_made_leaves_the_exit_status(tmp_path: Path) -> None:
    """CPython ends a process started with ``-m`` by SIGINT for it unless it is told."""
    (tmp_path / "interrupted.py").write_text(
        "import sys\nfrom artos.system import signals\n"
        "try:\n    exec('raise KeyboardInterrupt')\n"
        "except KeyboardInterrupt:\n    signals.forget_interrupt()\n    sys.exit(130)\n"
    )
    root = Path(signals.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    command = [sys.executable, "-m", "interrupted"]
    ended = subprocess.run(command, check=False, env=environment, timeout=PATIENCE)
    assert ended.returncode == 130
