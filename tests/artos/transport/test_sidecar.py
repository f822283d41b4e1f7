"""Leashes and companions: messages, ends, restarts, and when to give up."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.clock import Deadline
from artos.protocol.data import Finish, Nudge, ReplayUp, Terms
from artos.system.exit_report import ExitReport
from artos.transport.sidecar import ControlPipe, Retries

OWN, KILLED = ExitReport("it raised"), ExitReport("killed", own=False)


def test_messages_come_whole_and_in_order() -> None:
    mine, end = ControlPipe.pair()
    with mine, ControlPipe.held(end.detach()) as other:
        said = [Nudge(), Finish(2.5), Terms(dict.fromkeys(range(2000), 1), {})]
        assert all(mine.send(message) for message in said)
        assert list(other.take()) == said
        assert not other.cut
        assert other.send(ReplayUp("ipc://here"))
        assert mine.get(1.0) == ReplayUp("ipc://here")


def test_a_message_may_be_larger_than_what_a_pipe_holds() -> None:
    """The terms of all actors at once; a process that is started again is sent them first."""
    mine, end = ControlPipe.pair()
    actors = range(30_000)
    large = Terms(dict.fromkeys(actors, 1), {}, {actor: f"node-{actor}" for actor in actors})
    with mine, ControlPipe.held(end.detach()) as other:
        files = len([*Path("/proc/self/fd").iterdir()])
        for _ in range(3):
            assert mine.send(large)
            assert mine.send(Nudge())
        assert list(other.take()) == [large, Nudge()] * 3
        assert len([*Path("/proc/self/fd").iterdir()]) == files
        assert not other.cut


def test_a_wait_for_a_message_has_an_end() -> None:
    mine, end = ControlPipe.pair()
    with mine, end:
        assert mine.get(0.0) is None
        assert not mine.cut


def test_who_does_not_read_is_not_waited_for() -> None:
    mine, end = ControlPipe.pair()
    with mine, end:
        sent = 0
        while mine.send(Nudge()) and sent < 1_000_000:
            sent += 1
        assert 0 < sent < 1_000_000


def test_the_end_of_a_process_is_known_at_once() -> None:
    mine, end = ControlPipe.pair()
    code = f"import os; os.read({end.fileno()}, 1)"
    with mine, end:
        os.set_inheritable(end.fileno(), True)
        child = os.fork()
        if child == 0:
            mine.close()
            os.execl(sys.executable, sys.executable, "-c", code)
        end.close()
        mine.send(Nudge())
        deadline = Deadline(PATIENCE)
        assert mine.get(deadline.left) is None
        assert mine.cut
        assert not mine.send(Nudge())
        os.waitpid(child, 0)


def test_restarts_wait_longer_and_longer_and_then_stop() -> None:
    retries = Retries(failures=4, pause=1.0, longest=3.0)
    assert [retries.after(OWN, 0.0) for _ in range(5)] == [0.0, 1.0, 2.0, 3.0, None]


def test_kills_are_forgiven_longer() -> None:
    retries = Retries(failures=1, kills=3)
    assert [retries.after(KILLED, 0.0) is None for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize("death", [OWN, KILLED])
def test_who_lived_long_begins_anew(death: ExitReport) -> None:
    retries = Retries(failures=2, kills=2, calm=30.0)
    for _ in range(10):
        assert retries.after(death, 30.0) == 0.0


def test_who_has_not_read_for_a_while_is_waited_for_if_asked_to() -> None:
    mine, end = ControlPipe.pair()
    with mine, ControlPipe.held(end.detach()) as other:
        while mine.send(Nudge()):
            pass
        assert not mine.send(Finish(1.0), 0.01)
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(mine.send, Finish(2.0), PATIENCE)
            *_, last = iter(lambda: other.get(PATIENCE), Finish(2.0))
        assert sent.result()
        assert last == Nudge()
