"""The loop of a process that looks after others: asleep until something of theirs changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from artos.buffer.mailbox import Board
from artos.clock import Clock

TICK = 0.25
"""Seconds between two checks of everything that cannot ring the doorbell."""
_STOPPED = 1.0
"""A sleep that is this many seconds too long means that the process was stopped."""


class Loop(ABC):
    """Sleeps on a board's doorbell: a member, the end of a child, mail and signals all ring it.

    A request to stop interrupts its sleep and nothing else: code that makes processes runs
    ``undisturbed``, or some would be forgotten.
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
        """A child of this process ended (SIGCHLD): see which, in the loop. Safe in a handler."""
        self._someone_ended = True
        self._board.doorbell.ring()

    def serve(self, over: Callable[[], bool], after: Callable[[], None]) -> None:
        """Serve until it is ``over``.

        ``after`` is called whenever something happened and at least four times a second.
        """
        while not over():
            self._sleep()
            with self._undisturbed():
                self._turn()
            after()

    def _sleep(self) -> None:
        """Sleep until there is something to do; time added by SIGSTOP does not count."""
        patience, began = self._patience(), self._clock.now()
        self._board.doorbell.wait(patience)
        longer = self._clock.now() - began - patience
        if longer > _STOPPED:
            self._clock.leave_out(longer)

    def _turn(self) -> None:
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
            self._someone_ended = True  # in case a signal was missed, and for what hangs

    def _patience(self) -> float:
        due = self._due()
        return TICK if due is None else min(TICK, max(0.0, due - self._clock.now()))

    def _due(self) -> float | None:
        """When the next tick must not be later than."""
        return None

    def _take_mail(self) -> None:
        """See what came from other nodes."""
        return  # where there are others

    @abstractmethod
    def _changed(self, member: int) -> None:
        """Something of this member changed."""

    @abstractmethod
    def _follow_children(self) -> None:
        """A child may have ended."""

    @abstractmethod
    def _tick(self) -> None:
        """Time passed: a few times a second, and when something is due."""
