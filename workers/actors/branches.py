"""Episodes of live actors that are being continued beside them (``artos branch``)."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artos.protocol.invocations import Branch, Branched
from artos.runtime.branching import Found
from artos.specs.members import Member
from artos.specs.unreadable import UNREADABLE
from artos.system.closing import Closing
from artos.system.durable import write_durably
from artos.system.pidfd import PidFd
from artos.system.regular_file import contents
from triggers.passers import Mailboxes
from workers.actors.actor_record import ActorRecord, State

_log = logging.getLogger(__name__)
_HEARS = (State.STARTING, State.RUNNING, State.PARKED)
_DIED = "the process of actor {} ended before its episode could be branched: ask again"
_OVER = "the run ended before that"
_NOT_MADE = "it was not made, as the one that makes them ended: see logs/actor-{}.log"


@dataclass
class _UnderWay:
    """An order to branch, from when it is given until all its continuations have ended."""

    member: Member
    order: Branch
    result: Path
    sent: bool = False
    branched: Branched | None = None
    stem: PidFd | None = None


class Branches(Closing):
    """Hands orders to branch to actors, and writes what comes of each to a file of its own.

    ``prepare`` has a process made of an actor's image, or thaws it. No method waits.
    """

    def __init__(
        self,
        records: Mapping[Member, ActorRecord],
        mail: Mailboxes,
        prepare: Callable[[Member], None],
    ) -> None:
        self._records, self._mail, self._prepare = records, mail, prepare
        self._under_way: list[_UnderWay] = []

    def ask(self, member: Member, order: Branch, result: Path) -> None:
        """Have an order carried out; ``result`` is written once all its continuations have ended.

        Until then the actor waits in memory between its rounds.
        """
        self._records[member].branches += 1
        self._under_way.append(_UnderWay(member, order, result))
        self.look()

    def heard(self, member: Member, branched: Branched) -> None:
        """An actor has begun to carry out its oldest order, or says why it cannot."""
        for each in self._under_way:
            if each.member == member and each.sent and each.branched is None:
                each.branched = branched
                with suppress(ProcessLookupError):
                    each.stem = PidFd(branched.pid) if branched.pid else None
                break
        self.look()

    def lost(self, member: Member) -> None:
        """An actor's process is gone, and with it what continued its episode."""
        for each in [each for each in self._under_way if each.member == member and each.sent]:
            self._finish(each, _DIED.format(member.rank) if each.branched is None else "")

    def look(self) -> None:
        """Hand on what waits, and finish what is over. Called a few times a second."""
        for each in tuple(self._under_way):
            record = self._records[each.member]
            if not each.sent:
                if record.state in _HEARS:
                    self._mail.passers[each.member].pass_message(each.order)
                    each.sent = True
                else:
                    self._prepare(each.member)
            elif each.branched is not None and (each.stem is None or each.stem.has_ended()):
                self._finish(each, each.branched.fault)

    def close(self) -> None:
        """End everything that is under way."""
        for each in tuple(self._under_way):
            if each.stem is not None:
                each.stem.signal(signal.SIGKILL)
            self._finish(each, _OVER)

    def _finish(self, each: _UnderWay, fault: str) -> None:
        self._under_way.remove(each)
        self._records[each.member].branches -= 1
        lines = Path(each.order.file)
        if each.stem is not None:
            each.stem.close()
        try:
            write_durably(each.result, msgspec.json.encode(_told(each, fault, _found(lines))))
        except OSError as error:
            _log.warning("%s cannot be written: %s", each.result, error.strerror)
        lines.unlink(missing_ok=True)


def _found(file: Path) -> dict[int, Found]:
    found = {}
    with suppress(FileNotFoundError):
        for line in contents(file).splitlines():
            with suppress(*UNREADABLE):  # of a process that was killed while it wrote
                each = msgspec.json.decode(line, type=Found)
                found[each.number] = each
    return found


def _told(each: _UnderWay, fault: str, found: Mapping[int, Found]) -> dict[str, Any]:
    """What is written of an order, as plain data."""
    said, order, rank = each.branched or Branched(), each.order, each.member.rank
    nothing = _NOT_MADE.format(rank)
    children = [
        found.get(number, Found(number, fault=nothing))
        for number in range(0 if fault else order.times)
    ]
    return {
        "actor": rank,
        "env": order.env,
        "by": said.way,
        "row": said.row,
        "version": said.version,
        "digest": said.digest,
        "so_far": {"return": said.total, "steps": said.steps},
        "children": [
            {
                "return": child.total,
                "steps": child.steps,
                "ended": child.ended,
                "seed": child.seed,
                "digest": child.digest,
                "made": child.made,
                "fault": child.fault,
            }
            for child in children
        ],
        "fault": fault,
    }
