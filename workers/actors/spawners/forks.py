"""Actors forked from a warm template."""

from __future__ import annotations

import os
import select
import subprocess
from typing import IO

import msgspec

from artos.errors import TemplateFailed
from artos.protocol.invocations import Failed, FromMember, Ready
from artos.runtime.template import Identity
from artos.specs.members import Member
from artos.system.child import Child, ProcessSpec, Starter, adopt_orphans, adopts_orphans, start
from artos.system.child_modules import ChildModule
from workers.actors.spawners.spawner import TEMPLATE, Kind, Place, Spawned
from workers.checkpoint.criu import common_memory
from workers.checkpoint.criu.suspects import threads
from workers.host.slots import Slot

_FORK_SECONDS = 20.0
_END_SECONDS = 2.0


class Forks:
    """One process, the fork server, has prepared everything and forks on request.

    It has its environments already where a fork keeps them; if not, a strategy that is ``optional``
    fails. This process adopts the forks, so that it hears of their deaths at once. A fork has none
    of the fork server's other threads, and code that waits for one of them would wait forever; so
    this strategy fails if user code has started threads.

    With ``images``, images can be made of the forks. For that the fork server's memory is first
    moved to a file where the machine allows it: else the image of each would hold all of it, since
    only the kernel knows which pages a fork shares. Forks are faster for it, too.
    """

    kind: Kind = "fork"

    def __init__(
        self,
        place: Place,
        member: Member,
        begin: Starter = start,
        *,
        images: bool = False,
        optional: bool = False,
    ) -> None:
        self._place, self._images, self.optional = place, images, optional
        self._asked: list[Member] = []
        self.ready, self._failed = False, ""
        self._sharing: subprocess.Popen[bytes] | None = None
        self._log, self._memory = place.log(TEMPLATE), place.new_memory()
        self._adopted = adopts_orphans()
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        with requests, answers:
            arguments = ("fork", place.text_for(member), str(place.plan_file))
            spec = ProcessSpec(ChildModule.TEMPLATE, arguments + ("apart",) * images)
            self._server = begin(spec, self._log, stdin=requests, stdout=answers)

    def request(self, member: Member, slot: Slot | None) -> None:
        """Ask for a fork; it is made once the fork server is ready."""
        del slot  # only who made it can move it there
        self._asked.append(member)

    def heard(self, message: FromMember) -> None:
        """Decide by what the fork server reports whether it can be used."""
        if isinstance(message, Failed):
            self._failed = message.trace
        elif isinstance(message, Ready) and not message.whole and self.optional:
            self._failed = "a fork would lose threads of the environments, or share their files"
        elif others := threads(self._server.pid):
            self._failed = (
                f"user code started {len(others)} threads ahead ({', '.join(sorted({*others}))}), "
                "which a fork would not have: start them in setup instead"
            )
        elif self._images and common_memory.SUPPORTED:
            try:
                self._sharing = common_memory.begin(self._server.pid, self._memory, self._log)
            except OSError as error:
                self._failed = str(error)
        else:
            self.ready = True

    def poll(self) -> list[Spawned]:
        """Fork the actors that were asked for; none until the fork server is ready."""
        if self._failed or self._server.died() is not None:
            raise TemplateFailed(self.kind, self._failed or self._server.log_tail())
        if self._sharing is not None and self._sharing.poll() is not None:
            self._sharing, self.ready = None, True
        if not self.ready:
            return []
        spawned: list[Spawned] = []
        try:
            while self._asked:
                spawned.append(self._fork(self._asked.pop(0)))
        except TemplateFailed as failed:
            self._failed = failed.why
        except OSError as error:
            self._failed = str(error)
        if self._failed and not spawned:  # else raised next time, so that no process is lost
            raise TemplateFailed(self.kind, self._failed)
        return spawned

    def _fork(self, member: Member) -> Spawned:
        log = self._place.log_of(member)
        order = Identity(self._place.site_for(member), str(log))
        adopt_orphans()
        try:
            self._requests.write(msgspec.json.encode(order) + b"\n")
        except BrokenPipeError:
            raise self._gone() from None
        return Spawned(member, Child(int(self._answer()), log), self.kind)

    def _answer(self) -> bytes:
        ready, _, _ = select.select([self._answers], [], [], _FORK_SECONDS)
        if not ready:
            raise TemplateFailed(self.kind, f"the fork server gave no pid in {_FORK_SECONDS:g} s")
        if not (line := self._answers.readline()):
            raise self._gone()
        return line

    def _gone(self) -> TemplateFailed:
        return TemplateFailed(self.kind, self._server.log_tail() or "the fork server is gone")

    def close(self) -> None:
        """End the fork server; the actors that it made live on."""
        if self._sharing is not None:
            self._sharing.kill()
            self._sharing.wait()
            self._memory.unlink(missing_ok=True)
        adopt_orphans(self._adopted)
        self._requests.close()
        self._answers.close()
        # Its end in order would hold the process manager up, which needs another strategy now.
        self._server.end(0.0 if self._failed else _END_SECONDS)


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    source, sink = os.pipe()
    return os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0)
