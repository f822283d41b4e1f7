"""What a supervising process sleeps on: a waker, or the doorbell of a board."""

from __future__ import annotations

import os
import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress

from artos.buffer.mailbox import Board
from artos.clock import Clock
from artos.specs.members import Member
from artos.system.closing import Closing

TICK = 0.25
"""Seconds between two checks of everything that cannot ring the doorbell."""
_STOPPED = 1.0
"""A sleep that is this many seconds too long means that the process was stopped."""


class Waker(Closing):
    """Many ring it, one waits; no ring is lost. Threads and signal handlers may ring it."""

    def __init__(self) -> None:
        self._rung = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        """Wake the waiter, or make its next wait return at once; does nothing once closed."""
        if self._rung >= 0:
            os.eventfd_write(self._rung, 1)

    def wait(self, seconds: float, also: Iterable[int] = ()) -> bool:
        """Sleep until rung or one of the descriptors can be read, at most ``seconds``.

        Returns whether it was rung or one could be read.
        """
        poll = select.poll()
        for descriptor in (self._rung, *also):
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(max(0.0, seconds) * 1000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._rung)
        return bool(ready)

    def close(self) -> None:
        """Give the descriptor back; twice is fine."""
        if self._rung >= 0:
            rung, self._rung = self._rung, -1
            os.close(rung)


class Loop(ABC):
    """Sleeps on a board's doorbell: a member, the end of a child, mail and signals all ring it.

    A request to stop interrupts its sleep and nothing else: code that makes processes runs
    ``undisturbed``, or a process could be made and forgotten.
    """

    def __init__(
        self,
        board: Board,
        clock: Clock,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._board, self._clock, self._undisturbed = board, clock, undisturbed
        self._someone_ended, self._next_tick = True, clock.now()

    def child_ended(self) -> None:
        """Have the loop find out which child ended (SIGCHLD). Safe in a signal handler."""
        self._someone_ended = True
        self._board.doorbell.ring()

    def serve(self, over: Callable[[], bool], after: Callable[[], None]) -> None:
        """Serve until it is ``over``.

        ``after`` is called whenever something happened and at least four times a second.
        """
        while not over():
            began, due = self._clock.now(), self._due()
            patience = TICK if due is None else min(TICK, max(0.0, due - began))
            self._board.doorbell.wait(patience)
            longer = self._clock.now() - began - patience
            if longer > _STOPPED:  # by SIGSTOP: such time does not count
                self._clock.leave_out(longer)
            with self._undisturbed():
                for member in self._board.changed():
                    self._changed(member)
                self._take_mail()
                if self._someone_ended:
                    self._someone_ended = False
                    self._follow_children()
                now, due = self._clock.now(), self._due()
                if now >= self._next_tick or (due is not None and now >= due):
                    self._next_tick = now + TICK
                    self._tick()
                    # In case a signal was missed, and to find members that hang.
                    self._someone_ended = True
            after()

    def _due(self) -> float | None:
        """The time by which the next tick must come; None if there is no such time."""
        return None

    def _take_mail(self) -> None:
        """Take what came from other nodes."""
        return  # by default there are no other nodes

    @abstractmethod
    def _changed(self, member: Member) -> None:
        """Something of this member changed."""

    @abstractmethod
    def _follow_children(self) -> None:
        """A child may have ended."""

    @abstractmethod
    def _tick(self) -> None:
        """Time passed: a few times a second, and when something is due."""
