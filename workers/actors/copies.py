"""Copies of a live actor, all made of one image, each of which continues its episode."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from artos.clock import Clock
from artos.errors import ArtosError
from artos.protocol.invocations import Branch
from artos.runtime.branching import ACTOR, Found, Turn
from artos.runtime.template import WAKE
from artos.system.child import Child
from artos.system.closing import Closing
from artos.system.pidfd import PidFd
from artos.system.regular_file import opened
from workers.checkpoint.checkpointer import Checkpointer
from workers.checkpoint.criu.driver import Operation
from workers.checkpoint.images import Image


def wake(pid: int) -> None:
    """Send ``WAKE`` to the first thread of a child, which sleeps or is about to.

    A signal to the whole process could be taken by a thread of its environment meanwhile, which
    has not blocked it: that is the end of the process or, where this is the first one of its
    namespace, of the signal.
    """
    ctypes.CDLL(None).tgkill(pid, pid, int(WAKE))  # nothing happens if it has ended


def turn_file(order: Branch, number: int = ACTOR) -> Path:
    """Where the actor, or one of its copies, finds whose turn it is."""
    file = Path(f"{order.file}.turn")
    return file if number == ACTOR else file.with_suffix(f".turn{number}")


@dataclass
class _Copy:
    """One copy, from when it is begun."""

    began: float
    restore: Operation
    child: Child | None = None


class Copies(Closing):
    """Takes an image of an actor, which sleeps for that long, and then makes copies of it.

    As many live at once as the order has CPUs. No method waits. ``look`` raises an ``ArtosError``
    if no image can be made.

    Raises:
        ArtosError, OSError: no dump can be begun; the actor is woken.
    """

    def __init__(
        self, pid: int, order: Branch, log: Path, checkpointer: Checkpointer, clock: Clock
    ) -> None:
        self._actor, self._order, self._log = PidFd(pid), order, log
        self._checkpointer, self._clock = checkpointer, clock
        self._image: Image | None = None
        self._asleep = True
        self._left = list(range(order.times))
        self._alive: dict[int, _Copy] = {}
        self.made: dict[int, float] = {}
        """Seconds that it took to make each."""
        self.faults: dict[int, Found] = {}
        """Of those that cannot tell it themselves."""
        try:
            self._shot = checkpointer.take(pid, Path(order.file).name, stays=True)
        except BaseException:
            self._wake_actor()
            self._actor.close()
            raise

    def _wake_actor(self) -> None:
        """Once: to a process that does not sleep the signal is the end."""
        if self._asleep:
            self._asleep = False
            if not self._actor.has_ended():  # else its id may be another process's now
                wake(self._actor.pid)

    def look(self) -> bool:
        """Go on with what is under way; returns whether all copies have ended."""
        if self._image is None:
            try:
                if not self._checkpointer.is_done(self._shot):
                    return False
            except BaseException:
                self._wake_actor()
                raise
            self._image = self._shot.image
            self._wake_actor()
        for number in tuple(self._alive):
            self._follow(number, self._alive[number])
        while self._left and len(self._alive) < max(1, len(self._order.cpus)):
            self._begin(self._left.pop(0))
        return not (self._left or self._alive)

    def _begin(self, number: int) -> None:
        assert self._image is not None
        file, log = turn_file(self._order, number), os.path.realpath(self._log)
        file.write_bytes(msgspec.json.encode(Turn(number)))
        with ExitStack() as stack:
            held = {
                os.path.realpath(turn_file(self._order)): stack.enter_context(opened(file)),
                log: stack.enter_context(opened(self._log, "ab")),
            }
            files = {path: each.fileno() for path, each in held.items()}
            restore = self._checkpointer.copy(self._image, self._log, files)
        self._alive[number] = _Copy(self._clock.now(), restore)

    def _follow(self, number: int, copy: _Copy) -> None:
        if copy.child is None:
            try:
                outcome = copy.restore.poll()
            except ArtosError as error:
                self._over(number, str(error))
                return
            if outcome is None:
                return
            self.made[number] = self._clock.now() - copy.began
            copy.child = Child(outcome.pid, self._log)
            wake(outcome.pid)
        if (status := copy.child.died()) is not None:
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            self._over(number, f"its process ended with {how}" if status else "")

    def _over(self, number: int, fault: str) -> None:
        del self._alive[number]
        turn_file(self._order, number).unlink(missing_ok=True)
        if fault:
            self.faults[number] = Found(number, fault=fault)

    def close(self) -> None:
        """End all copies, and remove the image."""
        if self._image is None:
            self._shot.operation.cancel()
            self._shot.image.abandon()
            self._wake_actor()
        for number, copy in tuple(self._alive.items()):
            if copy.child is None:
                copy.restore.cancel()
            else:
                copy.child.kill()
            self._over(number, "")
        if self._image is not None:
            self._checkpointer.drop(self._image)
        self._actor.close()
