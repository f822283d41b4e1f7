"""Where an actor asks a server: a request goes out, its answer is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from artos.buffer.actor_block import INCARNATIONS
from artos.buffer.request_block import Arrays, RequestBlock
from artos.clock import Deadline
from artos.errors import DeadlineExceeded
from artos.system.exit_report import START_SECONDS

_LONGEST_SLEEP = 60.0
_MOVES, _STARTS = 1 << 14, 1 << 16


class Bell:
    """How an actor wakes a server, and sleeps until it is woken itself."""

    def __init__(
        self,
        ring: Callable[[], None],
        wait: Callable[[float], bool] = lambda _: False,
        drain: Callable[[], int] = lambda: 0,
    ) -> None:
        self.ring, self.wait, self.drain = ring, wait, drain


def first_number(incarnation: int) -> int:
    """The number of the first request of an actor's incarnation: none before it has as many.

    No two of a run have the same one, wherever they live, until an actor has moved 16,384 times or
    was started 65,536 times in one place.
    """
    moves, starts = divmod(incarnation, INCARNATIONS)
    return (moves % _MOVES * _STARTS + starts % _STARTS << 32) + 1


class Desk:
    """One seat of an actor at a server: it has one request under way at most.

    Either call it, or ``ask`` now and ``take`` the answer later. Requests of an actor's
    ``incarnation`` are numbered from ``first_number`` on, whatever those before it have asked.
    """

    def __init__(
        self,
        block: RequestBlock,
        actor: int,
        seat: int,
        bell: Bell,
        patience: float,
        incarnation: int = 0,
    ) -> None:
        self._block, self._bell, self._patience = block, bell, patience
        self._place = actor * block.spec.server.seats + seat
        self._who = f"{block.spec.server.name} to answer a request of actor {actor}"
        self._number = -1
        self.last = first_number(incarnation) - 1
        """The number of the last request: an actor that goes on elsewhere goes on from there."""
        self.version = -1
        """The version of the weights by which the last answer was made; -1 if by none."""

    def ask(self, asked: Mapping[str, NDArray[Any]]) -> None:
        """Send a request: arrays (rows, *shape) by name, which may be reused when this returns."""
        rows = len(next(iter(asked.values())))
        self._number = self.last = self._block.ask(self._place, asked, rows, self.last)
        self._bell.ring()

    def take(self) -> Arrays:
        """The answer to the request, arrays (rows, *shape) by name, valid until the next ``ask``.

        Raises:
            DeadlineExceeded: the server did not answer in time.
        """
        block, place, number = self._block, self._place, self._number
        answer = block.answer_to(place, number)
        if answer is None:
            # Of answers that were there when they were looked for, rings are left over. What else
            # rings here, an invocation, is found without its ring.
            self._bell.drain()
            answer = block.answer_to(place, number)
        if answer is None:
            # The first server may take as long as any member to be set up.
            patience = self._patience if block.served else max(START_SECONDS, self._patience)
            deadline = Deadline(patience)
            while (answer := block.answer_to(place, number)) is None:
                if deadline.passed:
                    raise DeadlineExceeded(self._who, patience)
                self._bell.wait(min(deadline.left, _LONGEST_SLEEP))
        self.version = int(block.versions[place])
        return answer

    def __call__(self, **asked: NDArray[Any]) -> Arrays:
        """Ask, and wait for the answer.

        Raises:
            DeadlineExceeded: the server did not answer in time.
        """
        self.ask(asked)
        return self.take()

    def __repr__(self) -> str:
        return f"<Desk {self._who}, number {self._number}>"
