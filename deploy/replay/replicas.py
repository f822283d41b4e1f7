"""The other replicas of a replayed learner: processes that make its updates with it, as in the run.

They add up their parts by the same library in the same order, so sums are rounded as they were.
"""

from __future__ import annotations

import time

from msgspec.structs import replace

from artos.buffer.gathering import Gathering
from artos.clock import Deadline
from artos.protocol.invocations import Invoke
from artos.runs.run_memory import RunMemory
from artos.runtime.member_host import hosts
from artos.system.closing import Closing
from artos.system.exit_report import START_SECONDS
from deploy.replay.difference import Over
from triggers.passers import Mailboxes, ToAll

_LOOK_SECONDS = 0.01


class Replicas(Closing):
    """Replicas 1, 2, … of the only learner of ``node``; the first one is replayed here."""

    def __init__(self, node: RunMemory) -> None:
        members = node.site.members
        site = replace(node.site, logs=node.site.folder)
        self._hosts = hosts(site, node.plan_file, members.together(members.publisher)[1:])
        self._mail, self._node, self._term = Mailboxes(node.board), node, 0
        self._all = ToAll([self._mail.passers[member] for member in self._hosts])
        self._call: Invoke | None = None

    def begin(self) -> tuple[int, Gathering]:
        """Start all of them anew: how often that was, and where the first one is to meet them.

        Raises:
            Over: they cannot be started.
        """
        self.close()
        self._term += 1
        for member, host in self._hosts.items():
            self._mail.clear(member)
            self._drain()
            host.start()
        plan = self._node.plan
        gathering = _Meeting.attach(self._node.site.gathering_of(plan.learner), plan.replicas)
        gathering.come(0, self._term)
        assert isinstance(gathering, _Meeting)
        gathering.replicas = self
        deadline, ranks = Deadline(START_SECONDS), range(1, plan.replicas)
        while not all(gathering.has_come(rank) for rank in ranks):
            if (why := self.lost()) or deadline.passed:
                raise Over(why or f"the other replicas did not start within {START_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)
        return self._term, gathering

    def lost(self) -> str:
        """Which of them has ended by itself, and why; "" if none has."""
        for member, host in self._hosts.items():
            if (report := host.reap()) is not None:
                return f"{member} ended: {report.why}"
        return ""

    def call(self, call: Invoke) -> None:
        """Have them carry it out, too, once the first one takes a step together with them.

        Until then it may wait for actors, whose rows are made meanwhile: they have a deadline.
        """
        self._drain()
        if why := self.lost():
            raise Over(why)
        self._call = call

    def pass_on(self) -> None:
        """The first one takes a step together with them."""
        if self._call is not None:
            call, self._call = self._call, None
            self._all.pass_message(call)

    def _drain(self) -> None:
        for member in self._hosts:
            for _ in self._mail.take(member):
                pass  # the first one answers for all

    def close(self) -> None:
        """End them."""
        self._call = None
        for host in self._hosts.values():
            host.end()


class _Meeting(Gathering):
    """That of the first replica."""

    replicas: Replicas

    def begin(self) -> None:
        """This process begins the next step."""
        self.replicas.pass_on()
        super().begin()
