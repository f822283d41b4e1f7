"""A process manager with everything around it made up: clock, children, images, mailboxes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from named import acting

from artos.clock import ManualClock
from artos.errors import DeadlineExceeded, TemplateFailed
from artos.protocol.invocations import Done, FromMember, Invoke, Ready
from artos.runs.plan import Site
from artos.specs.elastic import Park
from artos.specs.members import Member, Members
from triggers.engine import direct_passers
from workers.actors.actor_record import State
from workers.actors.idle_tiers import IdleTiers
from workers.actors.process_manager import ProcessManager
from workers.actors.spawners.spawner import Kind, Place, Spawned, Spawner
from workers.actors.tier_policy import Tier
from workers.actors.usage import Accounts
from workers.host.slots import OwnSlots, Slot, SlotTable

ONE, TWO, THREE, FOUR, FIVE = acting(0, 1, 2, 3, 4)


class FakeChild:
    """A child whose death is a variable."""

    def __init__(self, log: Path) -> None:
        self.pid, self.log = os.getpid(), log
        self.status: int | None = None
        self.killed = False

    def died(self) -> int | None:
        return self.status

    def has_ended(self) -> bool:
        return self.status is not None

    def ends_within(self, seconds: float) -> bool:
        del seconds
        return self.has_ended()

    def kill(self) -> None:
        self.killed = True
        self.status = -9 if self.status is None else self.status

    def end(self, seconds: float) -> None:
        del seconds
        self.kill()

    def cap_log(self) -> None:
        """It writes nothing."""

    def log_tail(self) -> str:
        return "its last words"


class FakeStrategy:
    """Makes processes when told to."""

    kind: Kind = "clone"
    optional = False

    def __init__(self, log: Path) -> None:
        self.log = log
        self.asked: list[Member] = []
        self.said: list[FromMember] = []
        self.children: dict[Member, FakeChild] = {}
        self.barred = False
        self.closed = False

    def request(self, member: Member, slot: Slot | None) -> None:
        del slot
        self.asked.append(member)

    def heard(self, message: FromMember) -> None:
        self.said.append(message)

    def poll(self) -> list[Spawned]:
        if self.barred:
            raise TemplateFailed(self.kind, "user code raised")
        spawned = [Spawned(member, self._child(member), self.kind) for member in self.asked]
        self.asked.clear()
        return spawned

    def _child(self, member: Member) -> Any:
        self.children[member] = FakeChild(self.log)
        return self.children[member]

    def close(self) -> None:
        self.closed = True


class FakeOperation:
    """Done when told to be."""

    def __init__(self) -> None:
        self.result: Any = None
        self.cancelled = self.hurried = False
        self.gently = False

    def hurry(self) -> None:
        self.hurried = True

    def lower_priority(self) -> None:
        self.gently = True

    def poll(self) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def wait(self, seconds: float) -> Any:
        raise DeadlineExceeded("the restore", seconds)

    def cancel(self) -> None:
        self.cancelled = True


class FakeCheckpointer:
    """Images in name only."""

    gives_back = True
    criu = "4.1"

    def __init__(self) -> None:
        self.dumps: list[FakeOperation] = []
        self.restores: list[FakeOperation] = []
        self.dropped: list[object] = []
        self.freed: list[list[int]] = []
        self.may_free = False
        self.closed = False

    def take(self, pid: int, name: str, actor: int = -1) -> Any:
        del pid, actor
        self.dumps.append(FakeOperation())

        class Shot:
            image = name
            operation = self.dumps[-1]

        return Shot()

    def is_done(self, shot: Any) -> bool:
        return shot.operation.poll() is not None

    def revive(
        self, image: Any, log: Path, slot: Slot | None, *, gently: bool = False
    ) -> FakeOperation:
        del image, log, slot
        self.restores.append(FakeOperation())
        self.restores[-1].gently = gently
        return self.restores[-1]

    def drop(self, image: Any) -> None:
        self.dropped.append(image)

    def free_memory(self, pids: Iterable[int]) -> None:
        self.freed.append(sorted(pids))
        self.may_free = False

    def close(self) -> None:
        self.closed = True


class FakeMail:
    """Mailboxes that are lists; ``cleared`` are the members whose was emptied."""

    def __init__(self, actors: int) -> None:
        self.delivered: list[tuple[Member, Invoke]] = []
        self.said: list[FromMember] = []
        self.cleared: list[Member] = []
        self.passers = direct_passers(self._deliver, acting(*range(actors)))

    def _deliver(self, member: Member, call: Invoke) -> None:
        self.delivered.append((member, call))

    def take(self, member: Member) -> list[FromMember]:
        del member
        said, self.said = self.said, []
        return said

    def clear(self, member: Member) -> None:
        self.cleared.append(member)


class Restored:
    pid = os.getpid()


class Host:
    """A manager with everything around it."""

    def __init__(
        self, folder: Path, actors: int, slots: int, park: Park, most: int = 9, *, pin: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.mail, self.recovered = FakeMail(actors), list[int]()
        self.strategy, self.spare = FakeStrategy(folder / "log"), FakeStrategy(folder / "log")
        self.checkpointer = FakeCheckpointer()
        self.unpinned: list[int] = []
        cpus = [Slot(cpu) for cpu in range(slots)]
        accounts = Accounts(self.clock)
        tiers: frozenset[Tier] = frozenset({"memory", "checkpoint"})
        tiers = IdleTiers(
            park, tiers, self.checkpointer, accounts, self.unpinned.append, self.clock,  # type: ignore[arg-type]
        )  # fmt: skip
        self.site = site = Site(str(folder), ONE, Members.of_run(actors), str(folder / "logs"))
        self.manager = ProcessManager(
            Place(site, folder / "plan"), self.mail, self.recovered.append,  # type: ignore[arg-type]
            Spawner([lambda: self.strategy, lambda: self.spare], most=most, clock=self.clock), cpus,
            SlotTable(OwnSlots(cpus), self.clock), tiers, accounts, self.clock, pin=pin,
        )  # fmt: skip
        self._number = 0

    @property
    def delivered(self) -> list[tuple[Member, Invoke]]:
        """What was put into the mailboxes, and whose."""
        return self.mail.delivered

    def say(self, member: Member, message: FromMember) -> list[FromMember]:
        """Have a member report that; what its node makes of it."""
        self.mail.said.append(message)
        return [*self.manager.reports(member)]

    def up(self, *members: Member) -> None:
        """Start actors and have them report."""
        for member in members:
            self.manager.start(member)
            self.say(member, Ready(0.0))

    def ask(self, *members: Member) -> None:
        """Send one invocation to each."""
        for member in members:
            self._number += 1
            self.manager.send(member, Invoke(self._number, "t", "sample", stop=9, bind=False))

    def answer(self, *members: Member) -> None:
        """Each answers its oldest invocation."""
        for member in members:
            self.clock.advance(1.0)
            self.say(member, Done(0, 0))

    @property
    def served(self) -> Sequence[Member]:
        """Members in the order in which they were given something to do."""
        return [member for member, _ in self.delivered]

    def state(self, member: Member) -> State:
        return self.manager.states()[member]
