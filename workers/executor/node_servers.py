"""The servers of a node: processes beside its actors, started and ended as the run says."""

from __future__ import annotations

from collections.abc import Callable

from artos.protocol.invocations import Failed, FromMember, Ready, Stop
from artos.protocol.message import Message
from artos.protocol.steering import ActorReport, Died
from artos.runs.run_memory import CacheMemory
from artos.runtime.member_host import hosts
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from triggers.passers import Mailboxes


class NodeServers:
    """Answers the actors of this node, by the weights that are here; ``tell`` reports to the run.

    A process is known by its term, so that the run can tell reports of an earlier one apart.
    """

    def __init__(self, node: CacheMemory, mail: Mailboxes, tell: Callable[[Message], None]) -> None:
        self._hosts = hosts(node.site, node.plan_file, node.site.members.servers)
        self._mail, self._tell = mail, tell
        self._terms: dict[Member, int] = {}
        self._ready: set[Member] = set()

    def __contains__(self, member: Member) -> bool:
        return member in self._hosts

    @property
    def all_ready(self) -> bool:
        """Whether each of them is set up, so that no actor here waits for one to come."""
        return self._ready.issuperset(self._hosts)

    def start(self, member: Member, term: int) -> None:
        """Start a server in this term; an earlier process of it is ended."""
        self.end(member)
        self._mail.clear(member)
        for _ in self._mail.take(member):
            pass  # of the process that was ended
        self._terms[member] = term
        self._hosts[member].start()

    def end(self, member: Member) -> None:
        """Kill a server; what was asked of it stays open in shared memory."""
        self._terms.pop(member, None)
        self._ready.discard(member)
        self._hosts[member].end()

    def changed(self, member: Member) -> None:
        """A server raised its counter: pass on what it says."""
        for told in self._mail.take(member):
            self._pass_on(member, told)

    def _pass_on(self, member: Member, told: FromMember) -> None:
        term = self._terms.get(member)
        if term is None or not isinstance(told, Ready | Failed):
            return
        self._tell(ActorReport(member, term, told, 0))
        if isinstance(told, Failed):
            self.end(member)  # now, so that its death is not reported as well
        else:
            self._ready.add(member)

    def follow(self) -> None:
        """Report servers that have died since the last call."""
        for member, host in self._hosts.items():
            if (death := host.reap()) is not None:
                self.changed(member)  # its last report comes first
                self._report(member, death)

    def _report(self, member: Member, death: ExitReport) -> None:
        if (term := self._terms.get(member)) is not None:
            self.end(member)
            self._tell(Died(member, term, death.why, death.step, death.own, death.fatal, written=0))

    def stop(self, seconds: float) -> None:
        """Let them end by themselves for ``seconds``, then kill them."""
        for member in self._hosts:
            self._terms.pop(member, None)
            self._mail.clear(member)
            self._mail.passers[member].pass_message(Stop())
        for host in self._hosts.values():
            host.stop(seconds)
