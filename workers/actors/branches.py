"""Episodes of live actors that are being continued beside them (``artos branch``)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

import msgspec

from artos.clock import Clock
from artos.errors import ArtosError, MailboxFull
from artos.protocol.invocations import Branch, Branched
from artos.runtime.branch_result import result
from artos.runtime.branching import CLONE, Found, Turn
from artos.specs.members import Member
from artos.specs.unreadable import UNREADABLE
from artos.system.closing import Closing
from artos.system.pidfd import PidFd
from artos.system.regular_file import contents
from triggers.passers import Mailboxes
from workers.actors.actor_record import ActorRecord, State
from workers.actors.copies import Copies, turn_file
from workers.checkpoint.checkpointer import Checkpointer

_HEARS = (State.STARTING, State.RUNNING, State.PARKED)
_OF_ALL = 2
"""Words of the line of a process that is in no namespace of its own."""
_DIED = "the process of actor {} ended before its episode could be branched: ask again"
_LEFT = "actor {} goes to another node: ask again once it is there"
_OVER = "the run, or its part on this node, ended before that: ask again if it goes on"
_LATE = "it had not ended after {:g} s, and was ended: let it end after some steps, or wait longer"
_NOT_MADE = "it was not made, as the one that makes them ended: see logs/actor-{}.log"


@dataclass(eq=False)
class _UnderWay:
    """An order to branch, from when it is given until all its continuations have ended."""

    member: Member
    order: Branch
    tell: Callable[[bytes], None]
    sent: bool = False
    branched: Branched | None = None
    stem: PidFd | None = None
    copies: Copies | None = None
    cut: str = ""
    """Why continuations that have told nothing yet will not."""
    due: float = inf
    """When it is ended."""


class Branches(Closing):
    """Hands orders to branch to actors, and tells what comes of each.

    ``prepare`` has a process made of an actor's image, or thaws it. Where images can be made,
    ``images`` makes them. No method waits.
    """

    def __init__(
        self,
        records: Mapping[Member, ActorRecord],
        mail: Mailboxes,
        prepare: Callable[[Member], None],
        log_of: Callable[[Member], Path],
        images: Checkpointer | None,
        clock: Clock,
    ) -> None:
        self._records, self._mail, self._prepare = records, mail, prepare
        self._log_of, self._images, self._clock = log_of, images, clock
        self._under_way: list[_UnderWay] = []

    def ask(self, member: Member, order: Branch, tell: Callable[[bytes], None]) -> None:
        """Have an order carried out; ``tell`` its result once all its continuations have ended.

        It is called once, whatever happens. Until then the actor waits in memory between its
        rounds.
        """
        self._records[member].begin_branch()
        due = self._clock.now() + order.seconds if order.seconds else inf
        self._under_way.append(_UnderWay(member, order, tell, due=due))
        self.look()

    def heard(self, member: Member, branched: Branched) -> None:
        """An actor has begun to carry out its oldest order, or says why it cannot."""
        for each in self._under_way:
            if each.member == member and each.sent and each.branched is None:
                each.branched = branched
                if branched.way == CLONE:
                    self._copy(each)
                elif branched.pid:
                    with suppress(ProcessLookupError):
                        each.stem = PidFd(branched.pid)
                break
        self.look()

    def lost(self, member: Member, *, stays: bool = True) -> None:
        """An actor's process is gone, and with it what continued its episode.

        If it ``stays``, its next process gets the orders that this one has not heard.
        """
        for each in self._of(member):
            if each.sent or not stays:
                self._finish(each, "" if each.branched else _DIED.format(member.rank))

    def leave(self, member: Member) -> bool:
        """End what continues the episode of an actor that is to leave; whether it has ended.

        If it has not, ask again.
        """
        for each in self._of(member):
            self._cut(each, _LEFT.format(member.rank))
        self.look()
        return not self._of(member)

    def _cut(self, each: _UnderWay, why: str) -> None:
        """End what continues the episode: at once, or once the actor has answered."""
        each.cut = why
        if not each.sent:
            self._finish(each, why)
        elif each.stem is not None:
            each.stem.signal(signal.SIGKILL)
        elif each.copies is not None:
            self._finish(each, "")

    def _of(self, member: Member) -> list[_UnderWay]:
        return [each for each in self._under_way if each.member == member]

    def look(self) -> None:
        """Hand on what waits, and finish what is over. Called a few times a second."""
        now = self._clock.now()
        for each in [each for each in self._under_way if each.due <= now]:
            self._cut(each, each.cut or _LATE.format(each.order.seconds))
        for each in tuple(self._under_way):
            if each not in self._under_way:
                continue  # what is prepared below looks here, too, and has finished it
            record = self._records[each.member]
            if not each.sent:
                if record.state in _HEARS:
                    try:
                        with suppress(MailboxFull):  # it is told later
                            self._send(each, record)
                    except OSError as error:
                        self._finish(each, str(error))
                else:
                    self._prepare(each.member)
            elif each.copies is not None:
                try:
                    if each.copies.look():
                        self._finish(each, "")
                except (ArtosError, OSError) as error:
                    self._finish(each, str(error))
            elif each.branched is not None and (each.stem is None or each.stem.has_ended()):
                self._finish(each, each.branched.fault)

    def _send(self, each: _UnderWay, record: ActorRecord) -> None:
        if self._images is not None and record.child is not None and is_apart(record.child.pid):
            turn = turn_file(each.order)
            turn.write_bytes(msgspec.json.encode(Turn()))
            each.order = msgspec.structs.replace(each.order, image=str(turn))
        self._mail.passers[each.member].pass_message(each.order)
        each.sent = True

    def _copy(self, each: _UnderWay) -> None:
        child, log = self._records[each.member].child, self._log_of(each.member)
        if child is None or self._images is None:
            return  # it has ended: ``lost`` is called next
        try:
            each.copies = Copies(child.pid, each.order, log, self._images, self._clock)
        except (ArtosError, OSError) as error:
            self._finish(each, str(error))

    def close(self) -> None:
        """End everything that is under way."""
        for each in tuple(self._under_way):
            self._cut(each, _OVER)
            if each in self._under_way:
                self._finish(each, "" if each.branched else _OVER)

    def _finish(self, each: _UnderWay, fault: str) -> None:
        self._under_way.remove(each)
        self._records[each.member].end_branch()
        lines, rank = Path(each.order.file), each.member.rank
        found = _found(lines)
        if each.stem is not None:
            each.stem.close()
        if each.copies is not None:
            each.copies.close()
            found = each.copies.faults | found
            for number in found.keys() & each.copies.made.keys():
                made = each.copies.made[number]
                found[number] = msgspec.structs.replace(found[number], made=made)
        nothing = each.cut or _NOT_MADE.format(rank)
        children = [
            found.get(number, Found(number, fault=nothing))
            for number in range(0 if fault else each.order.times)
        ]
        lines.unlink(missing_ok=True)
        turn_file(each.order).unlink(missing_ok=True)
        each.tell(result(rank, each.order, fault, each.branched or Branched(), children))


def is_apart(pid: int) -> bool:
    """Whether a process is the first of a namespace, so that many copies of it can live."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return len(line.split()) > _OF_ALL and line.split()[-1] == "1"
    return False


def _found(file: Path) -> dict[int, Found]:
    found = {}
    with suppress(FileNotFoundError):
        for line in contents(file).splitlines():
            with suppress(*UNREADABLE):  # of a process that was killed while it wrote
                each = msgspec.json.decode(line, type=Found)
                found[each.number] = each
    return found
