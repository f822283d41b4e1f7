"""One actor of a run as the head sees it: where it lives, and what is under way with it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from artos.buffer.board import actor_member
from artos.protocol.invocations import Done, FromMember
from artos.protocol.wire import Call, Died, Message, Prepare, Said, Start
from artos.system.exit_report import Death
from triggers.passers import MessagePasser


@dataclass(slots=True)
class Posting:
    """An actor's place: ``node``, "" if it has none; it is to go to ``next`` (None: stay).

    ``passer`` carries messages to the site on that node.

    It is ``there`` once the node's site was told of it; its rows begin there with ``base`` and
    count as ``term``. ``wanted`` is how it is to be brought up, None if it is not (any more), and
    ``up`` whether its site was told so. ``waiting`` calls wait for a place, ``given`` ones for an
    answer. ``reports`` wait for the rows they speak of; ``committed`` counts those known of.
    ``asked``: its process there was given a call. ``bereft``: its node took it along, and the
    coordinator has not been told yet.
    """

    actor: int
    node: str = ""
    passer: MessagePasser[Message] = field(init=False, repr=False)
    next: str | None = None
    there: bool = False
    term: int = 0
    base: int = 0
    wanted: type[Start | Prepare] | None = None
    up: bool = False
    asked: bool = False
    waiting: deque[Call] = field(default_factory=deque)
    given: deque[Call] = field(default_factory=deque)
    reports: deque[Said | Died] = field(default_factory=deque)
    committed: int = 0
    bereft: bool = False

    @property
    def member(self) -> int:
        """Its member number."""
        return actor_member(self.actor)

    @property
    def takes_calls(self) -> bool:
        """Whether what it is asked to do is passed on at once."""
        return self.there and self.next is None

    def is_from_here(self, node: str, report: Said | Died) -> bool:
        """Whether a report is of the place where it lives now."""
        return self.there and node == self.node and report.term == self.term

    def heard(self, report: Said | Died) -> None:
        """It reported; that counts once the rows are there."""
        self.committed = max(self.committed, report.written)
        self.reports.append(report)

    def counting(self, arrived: int) -> list[FromMember | Death]:
        """Reports that count now that ``arrived`` rows are there, oldest first."""
        counting: list[FromMember | Death] = []
        while self.reports and self.reports[0].written <= arrived:
            counting.append(self._take(self.reports.popleft()))
        return counting

    def _take(self, report: Said | Died) -> FromMember | Death:
        if isinstance(report, Died):
            why = f"on node {self.node}: {report.why}"
            return Death(why, report.step, own=report.own, fatal=report.fatal)
        told = report.told
        if isinstance(told, Done) and self.given and self.given[0].call.firing == told.firing:
            self.given.popleft()
        return told

    def is_idle(self, arrived: int) -> bool:
        """Whether nothing is under way: it may go elsewhere without losing anything."""
        return not self.given and not self.reports and arrived >= self.committed

    def forget_calls(self) -> None:
        """Whatever it was asked to do is void; it is asked again."""
        self.waiting.clear()
        self.given.clear()

    def leave(self, term: int, base: int) -> None:
        """It lives nowhere until it gets to its next place, where its rows begin with ``base``."""
        self.next = None
        self.term, self.base, self.committed = term, base, base
        self.there = self.up = self.asked = False
        self.given.clear()
        self.reports.clear()
