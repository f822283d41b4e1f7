"""The actors of a node: processes of this one, reached through shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from artos.buffer.board import actor_member, template_member
from artos.buffer.run_memory import Node
from artos.clock import Clock
from artos.protocol.invocations import FromMember, Stop
from artos.runtime.preloaded import Preloaded
from artos.system.exit_report import Death
from artos.usage import Bill
from triggers.mailboxes import Mail
from triggers.passers import direct_passers
from workers.checkpoint.checkpointer import Progress
from workers.executor.build import build, slots_on


class LocalActors:
    """The actors' half of ``Members``, and what there is to be heard of them.

    The process manager decides when an actor gets what it is told; here are its edges.
    """

    def __init__(
        self, node: Node, mail: Mail, home: Path, clock: Clock,
        preloaded: Preloaded | None = None, cpus: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self._node, self._mail = node, mail
        self.template = template_member(node.site.members)
        self._manager = build(node, home, mail.passers, self._progress, clock, preloaded, cpus)
        self._members = [*map(actor_member, range(node.plan.actors))]
        self.passers = direct_passers(self._manager.send, self._members)
        self.held_back = self._manager.held_back
        self.pids = self._manager.pids
        self.prepare = self._manager.prepare
        self.retire = self._manager.retire
        self.images, self.home_of = self._manager.images, self._manager.home_of
        self.shelve = self._manager.shelve
        self.take_in, self.miss = self._manager.take_in, self._manager.miss
        self.arrivals = self._manager.arrivals

    def _progress(self, actor: int) -> Progress:
        return Progress(self._node.blocks[actor].written, self._node.weights.version)

    @property
    def criu(self) -> str:
        """The version that makes images of them, "" if none can."""
        return self._manager.criu

    def start(self, member: int) -> None:
        """Have a process of it made, with an empty mailbox."""
        self._mail.clear(member)
        self._manager.start(member)

    def end(self, member: int) -> None:
        """Kill what is left of it; a commit that was cut short is finished, its pin dropped."""
        self._manager.end(member)
        self._node.blocks[member - 1].recover()
        self._node.weights.unpin(member - 1)

    def expect(self, member: int) -> None:
        """Its image is on its way here; until that came its mailbox is nobody's."""
        self._mail.clear(member)
        self._manager.expect(member)

    def reports(self, member: int) -> Iterator[FromMember]:
        """What it said; the process manager hears it once the caller is through with it."""
        for message in self._mail.take(member):
            if member == self.template:
                self._manager.template_said(message)
                continue
            yield message
            # Afterwards: what the answer made others or itself do is known by then.
            self._manager.heard(member, message)

    def use(self, cpus: Sequence[int]) -> None:
        """These are their CPUs from now on."""
        self._manager.use(slots_on(self._node.plan.elastic, cpus))

    def deaths(self) -> list[tuple[int, Death]]:
        """Actors that died since the last look, by member number, and of what."""
        self._manager.step()
        return self._manager.reap()

    def tick(self) -> None:
        """Keep the books. Called a few times a second."""
        self._manager.tick()

    def bill(self) -> Bill:
        """What they cost so far."""
        accounts = self._manager.accounts
        return Bill(
            starts={kind: asdict(stats) for kind, stats in accounts.starts().items()},
            held_cpu_seconds=self._manager.held_seconds(),
            used_cpu_seconds=accounts.all_used_seconds(),
            parked_mb_seconds=accounts.parked_mb_seconds(),
        )

    def tell_to_stop(self) -> None:
        """Have each end once it is done with what it does."""
        for member in self._members:
            self._mail.clear(member)
            self._mail.passers[member].pass_message(Stop())

    def stop(self, seconds: float) -> None:
        """Give them so long to end by themselves; nothing is left of them."""
        self._manager.stop(seconds)
