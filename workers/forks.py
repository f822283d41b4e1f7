"""Actors forked from a warm template: for hosts without CRIU, no privileges needed (design §7)."""

from __future__ import annotations

import ctypes
import select
import subprocess
from collections.abc import Callable

import msgspec

from artos.errors import TemplateFailed
from artos.messages import Failed, FromMember
from artos.runtime.child import Child, command, environment
from artos.runtime.identity import Identity
from workers.criu.suspects import threads
from workers.nursery import TEMPLATE, Birth, Kind, Place
from workers.slots import Slot

_PR_SET_CHILD_SUBREAPER = 36
_MODULE = "artos.runtime.template"
_FORK_SECONDS = 20.0
_END_SECONDS = 2.0


class Forks:
    """One process that has imported everything and forks on request.

    What it forks is adopted by this process, which thereby hears of its death at once. A fork has
    none of the threads there were, and what waits for one of them waits for ever: with threads
    this way is barred.
    """

    kind: Kind = "fork"

    def __init__(self, place: Place, member: int, pin: Callable[[int, Slot], None]) -> None:
        self._place, self._pin = place, pin
        self._asked: list[tuple[int, Slot | None]] = []
        self._ready, self._failed = False, ""
        _adopt_orphans(True)
        self._log = place.log(TEMPLATE)
        arguments = ["fork", place.text_for(member), str(place.plan_file)]
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                command(_MODULE, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, env=environment(1), start_new_session=True,
            )  # fmt: skip

    def request(self, member: int, slot: Slot | None) -> None:
        """See ``Way.request``."""
        self._asked.append((member, slot))

    def heard(self, message: FromMember) -> None:
        """See ``Way.heard``."""
        if isinstance(message, Failed):
            self._failed = message.trace
        elif others := threads(self._server.pid):
            self._failed = (
                f"user code started {len(others)} threads ahead ({', '.join(sorted({*others}))}), "
                "which a fork would not have: start them in setup instead"
            )
        else:
            self._ready = True

    def poll(self) -> list[Birth]:
        """See ``Way.poll``."""
        if self._failed or self._server.poll() is not None:
            raise TemplateFailed(
                self.kind, self._failed or Child(self._server, self._log).log_tail()
            )
        if not self._ready:
            return []
        asked, self._asked = self._asked, []
        return [self._fork(member, slot) for member, slot in asked]

    def _fork(self, member: int, slot: Slot | None) -> Birth:
        log = self._place.log_of(member)
        order = Identity(self._place.site_for(member), str(log))
        assert self._server.stdin is not None
        try:
            self._server.stdin.write(msgspec.json.encode(order) + b"\n")
            self._server.stdin.flush()
        except BrokenPipeError:
            raise TemplateFailed(self.kind, "the fork server is gone") from None
        pid = int(self._answer())
        if slot is not None:
            self._pin(pid, slot)
        return Birth(member, Child(pid, log), self.kind)

    def _answer(self) -> bytes:
        assert self._server.stdout is not None
        ready, _, _ = select.select([self._server.stdout], [], [], _FORK_SECONDS)
        line = self._server.stdout.readline() if ready else b""
        if not line:
            raise TemplateFailed(self.kind, f"the fork server gave no pid in {_FORK_SECONDS:g} s")
        return line

    def close(self) -> None:
        """See ``Way.close``."""
        _adopt_orphans(False)
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


def _adopt_orphans(yes: bool) -> None:
    """Whether processes below this one whose parents end become this one's children."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)
