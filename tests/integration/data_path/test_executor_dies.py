"""An executor is killed: its agent ships what is committed and clears away its memory."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest
from helpers import python
from test_processes import dual_stage
from two_nodes import PATIENCE, Head

from artos.buffer.shm_folder import reap_orphans
from artos.clock import Deadline
from artos.transport.keys import make_keys
from triggers.wiring import cache_plan

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent


@contextmanager
def orphaned(tmp: Path, head: Head, plan, table):
    """An executor whose supervisor was killed: its folder and its agent."""
    given = {
        "plan": msgspec.json.encode(cache_plan(plan, table)).decode(), "logs": str(tmp),
        "endpoint": head.host.endpoint, "keys": str(tmp / "keys"),
    }  # fmt: skip
    with python(HERE / "executor_peer.py", json.dumps(given)) as executor:
        assert executor.stdout is not None
        held = json.loads(executor.stdout.readline())
        agent = psutil.Process(held["agent"])
        try:
            os.kill(executor.pid, signal.SIGKILL)
            executor.wait(PATIENCE)
            yield Path(held["folder"]), agent
        finally:
            if is_alive(agent):
                agent.kill()


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_the_agent_ships_what_is_committed_and_removes_the_memory(tmp_path: Path) -> None:
    plan, table = dual_stage(actors=1)
    make_keys(tmp_path / "keys")
    with Head(plan, tmp_path, tmp_path / "keys") as head:
        head.host.start()
        head.host.terms({0: 1}, {0: 0}, {})
        with orphaned(tmp_path, head, plan, table) as (folder, agent):
            deadline = Deadline(PATIENCE)
            while is_alive(agent) and not deadline.passed:
                head.board.doorbell.wait(0.05)
                head.consume()
            assert not is_alive(agent)
            assert not folder.exists()
        head.consume()
        assert head.checked == {0: 23}


def test_nobody_reaps_the_memory_while_the_agent_ships(tmp_path: Path) -> None:
    plan, table = dual_stage(actors=1)
    make_keys(tmp_path / "keys")
    with Head(plan, tmp_path, tmp_path / "keys") as head:
        head.host.start()  # and no terms: nothing the agent says is taken
        with orphaned(tmp_path, head, plan, table) as (folder, agent):
            os.utime(folder, (0, 0))  # else its age would protect it
            assert folder not in reap_orphans()
            assert is_alive(agent)
            agent.kill()
            agent.wait(PATIENCE)
            assert folder in reap_orphans()
        assert not folder.exists()
