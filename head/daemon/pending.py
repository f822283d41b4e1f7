"""What nodes and runs were asked on behalf of users, until they answer or it takes too long."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import count

from artos.clock import Clock
from artos.protocol.control import Answer
from artos.transport.messenger import Messenger
from head.daemon.run import Run

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was passed on."""

    user: str
    """Who waits for the answer; "": the head itself asked."""
    whom: str
    """Who is to answer, as ``node w1`` or ``run r1``."""
    run: Run
    due: float
    """When the user is told that there is no answer."""
    number: int
    """What the user has numbered the request."""


class Pending:
    """Requests by number, so that a late answer is not taken for that to another request.

    Each head has numbers of its own. ``messenger`` serves users.
    """

    def __init__(self, messenger: Messenger, clock: Clock) -> None:
        self._messenger, self._clock = messenger, clock
        self._numbers = count(secrets.randbits(62))
        self._asked: dict[int, Asked] = {}

    def __repr__(self) -> str:
        return f"<Pending {len(self._asked)}>"

    def add(self, user: str, whom: str, run: Run, users: int) -> int:
        """The number of a request about a run that is passed on now; ``users`` is the user's."""
        number = next(self._numbers)
        self._asked[number] = Asked(user, whom, run, self._clock.now() + _SECONDS, users)
        return number

    def take(self, number: int, whom: str) -> Asked | None:
        """The request that is answered now; None if it was given up, or others were asked."""
        asked = self._asked.get(number)
        return self._asked.pop(number) if asked and asked.whom == whom else None

    def give_up(self, whom: str) -> None:
        """Tell users that no answer will come."""
        for number, asked in [*self._asked.items()]:
            if asked.whom == whom:
                self._drop(number, "ended, or began again, before it answered")

    def drop_overdue(self) -> None:
        """Tell users whose answer has not come in time."""
        now = self._clock.now()
        for number, asked in [*self._asked.items()]:
            if asked.due <= now:
                self._drop(number, f"did not answer within {_SECONDS:g} s; ask again")

    def _drop(self, number: int, why: str) -> None:
        asked = self._asked.pop(number)
        if asked.user:
            self._messenger.send(
                asked.user, Answer(fault=f"{asked.whom} {why}", number=asked.number)
            )
