"""Actors forked from a warm template: for hosts without CRIU, no privileges needed."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import IO

import msgspec

from artos.errors import TemplateFailed
from artos.protocol.invocations import Failed, FromMember
from artos.runtime.identity import Identity
from artos.system.child import Child, ProcessSpec, Start, start
from artos.system.child_modules import ChildModule
from artos.system.forking import adopt_orphans, adopts_orphans
from workers.actors.launchers.launcher import TEMPLATE, Kind, Launched, Place
from workers.checkpoint.criu.suspects import threads
from workers.host.slots import Slot

_FORK_SECONDS = 20.0
_END_SECONDS = 2.0


class Forks:
    """One process that has imported everything and forks on request.

    What it forks is adopted by this process, which thereby hears of its death at once. A fork has
    none of the threads there were, and what waits for one of them waits for ever: with threads
    this strategy is barred.
    """

    kind: Kind = "fork"

    def __init__(
        self, place: Place, member: int, pin: Callable[[int, Slot], None], begin: Start = start
    ) -> None:
        self._place, self._pin = place, pin
        self._asked: list[tuple[int, Slot | None]] = []
        self._ready, self._failed = False, ""
        self._adopted = adopts_orphans()
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        with requests, answers:
            spec = ProcessSpec(
                ChildModule.TEMPLATE, ("fork", place.text_for(member), str(place.plan_file))
            )
            self._server = begin(spec, place.log(TEMPLATE), stdin=requests, stdout=answers)

    def request(self, member: int, slot: Slot | None) -> None:
        """See ``LaunchStrategy.request``."""
        self._asked.append((member, slot))

    def heard(self, message: FromMember) -> None:
        """See ``LaunchStrategy.heard``."""
        if isinstance(message, Failed):
            self._failed = message.trace
        elif others := threads(self._server.pid):
            self._failed = (
                f"user code started {len(others)} threads ahead ({', '.join(sorted({*others}))}), "
                "which a fork would not have: start them in setup instead"
            )
        else:
            self._ready = True

    def poll(self) -> list[Launched]:
        """See ``LaunchStrategy.poll``."""
        if self._failed or self._server.died() is not None:
            raise TemplateFailed(self.kind, self._failed or self._server.log_tail())
        if not self._ready:
            return []
        asked, self._asked = self._asked, []
        return [self._fork(member, slot) for member, slot in asked]

    def _fork(self, member: int, slot: Slot | None) -> Launched:
        log = self._place.log_of(member)
        order = Identity(self._place.site_for(member), str(log))
        adopt_orphans()
        try:
            self._requests.write(msgspec.json.encode(order) + b"\n")
        except BrokenPipeError:
            raise TemplateFailed(self.kind, "the fork server is gone") from None
        pid = int(self._answer())
        if slot is not None:
            self._pin(pid, slot)
        return Launched(member, Child(pid, log), self.kind)

    def _answer(self) -> bytes:
        ready, _, _ = select.select([self._answers], [], [], _FORK_SECONDS)
        line = self._answers.readline() if ready else b""
        if not line:
            raise TemplateFailed(self.kind, f"the fork server gave no pid in {_FORK_SECONDS:g} s")
        return line

    def close(self) -> None:
        """See ``LaunchStrategy.close``."""
        adopt_orphans(self._adopted)
        self._requests.close()
        self._answers.close()
        self._server.end(_END_SECONDS)


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    source, sink = os.pipe()
    return os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0)
