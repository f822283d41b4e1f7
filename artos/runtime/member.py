"""The loop of a member process: wait for an invocation, run it, report."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Protocol

from artos.buffer.board import Board
from artos.errors import BadRow, DeadlineExceeded, NotFinite
from artos.protocol.invocations import (
    Done,
    Failed,
    FromMember,
    Invoke,
    Stop,
    decode_to_member,
    encode,
)

_IDLE_SECONDS = 3600.0
TRACE_BYTES = 12_000
"""The end of a traceback that a report carries; it must fit a mailbox."""


class Role(Protocol):
    """What runs in a member: an actor or a learner."""

    def run(self, call: Invoke) -> Done:
        """Carry out one invocation."""

    def step(self) -> int:
        """How far it got: rows written (actor) or the policy version (learner)."""

    def close(self) -> None:
        """Let go of what user code holds open; called when the member is told to stop."""


class Line:
    """A member's line to its node: messages down, messages up, one ring for whatever changed."""

    def __init__(self, board: Board, member: int) -> None:
        self._board, self._member = board, member
        self._down, self._up = board.down(member), board.up(member)

    def receive(self, seconds: float) -> Invoke | Stop | None:
        """The next message from the node, or None if none came in time."""
        data = self._down.get(seconds)
        return None if data is None else decode_to_member(data)

    def send(self, message: FromMember) -> None:
        """Report to the node."""
        self._up.put(encode(message))
        self._board.notify(self._member)


def serve(role: Role, line: Line) -> int:
    """Run invocations until told to stop; returns the exit status.

    If user code raises, the process reports that and ends; the supervising process decides
    whether there is another try.
    """
    while True:
        began = time.perf_counter()
        call = line.receive(_IDLE_SECONDS)
        if call is None:
            continue
        if isinstance(call, Stop):
            return 0
        waited = time.perf_counter() - began
        if not _attempt(role, line, call, waited):
            return 3


def _attempt(role: Role, line: Line, call: Invoke, waited: float) -> bool:
    done = guarded(lambda: role.run(call), call, role)
    if isinstance(done, Done):
        done.times["wait"] = done.times.get("wait", 0.0) + waited
    line.send(done)
    return isinstance(done, Done)


def guarded(run: Callable[[], Done], call: Invoke, role: Role) -> Done | Failed:
    """Run, and turn what user code raises into a report with the step it happened at."""
    try:
        return run()
    except (Exception, SystemExit) as error:
        step = error.step if isinstance(error, BadRow) else role.step()
        # The same rows and seeds would give the same NaN, and the same wait would time out again.
        fatal = isinstance(error, DeadlineExceeded | NotFinite)
        return Failed(call.firing, step, traceback.format_exc()[-TRACE_BYTES:], fatal)
