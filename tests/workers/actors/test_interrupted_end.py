"""A second Ctrl-C at any line of the end of actors: the end that follows leaves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from host_fixture import FOUR, ONE, THREE, TWO, Host

from artos.system.signals import StopRequests
from workers.actors.actor_record import State


@contextmanager
def second_request(requests: StopRequests, line: int) -> Iterator[Callable[[], bool]]:
    """Signal when the given line of the actors' own code is reached; whether it was."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if "/workers/actors/" not in frame.f_code.co_filename or "/tests/" in (
            frame.f_code.co_filename
        ):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                requests._on_signal(15, None)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lambda: left <= 0
    finally:
        sys.settrace(before)


def in_every_state(folder: Path) -> Host:
    """One actor's dump is over and another's is not; one is an image and one is restored."""
    there = Host(folder, 4, 4, "checkpoint")
    there.up(ONE, TWO, THREE, FOUR)
    there.ask(ONE, TWO, THREE, FOUR)
    there.answer(ONE, TWO, THREE, FOUR)
    *_, three, four = there.checkpointer.dumps
    three.result = four.result = "sealed"
    there.manager.step()
    there.ask(FOUR)
    there.checkpointer.dumps[0].result = "sealed"
    assert [there.state(m) for m in (ONE, TWO, THREE, FOUR)] == [
        State.DUMPING, State.DUMPING, State.CHECKPOINTED, State.RESTORING,
    ]  # fmt: skip
    return there


def test_at_any_line(tmp_path: Path) -> None:
    for line in count(1):
        there = in_every_state(tmp_path)
        requests = StopRequests()
        with requests.draining(lambda: None):
            requests._on_signal(15, None)
            try:
                with second_request(requests, line) as reached:
                    there.manager.stop(5.0, requests.undisturbed)
                assert not reached()
            except KeyboardInterrupt:
                there.manager.stop(0.0)
        assert there.manager.pids() == {}
        under_way = [*there.checkpointer.dumps[1:2], *there.checkpointer.restores]
        assert all(operation.cancelled for operation in under_way)
        assert there.checkpointer.closed
        if not reached():
            assert line > 30, "so many lines were tried"
            return
