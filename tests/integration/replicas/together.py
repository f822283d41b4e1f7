"""The learner of a run as real processes, one or several, told by hand what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from helpers import PATIENCE
from numpy.typing import NDArray

from artos.protocol.invocations import (
    Claim,
    Done,
    FromMember,
    Invoke,
    Ready,
    decode_from_member,
    encode,
)
from artos.runs.run_memory import RunMemory
from artos.runtime.member_host import hosts
from artos.runtime.serving import actor_role
from artos.specs.members import ACTORS, LEARNER, Member
from artos.system.child import Starter
from artos.system.closing import Closing
from head.run.request import reference_of
from triggers.registration import prepare


class Together(Closing):
    """A run's memory with actors that sample when they are told, and replicas of its learner."""

    def __init__(
        self, begin: Starter, workload: str, replicas: int, folder: Path,
        deadline: float = 60.0, **settings: Any,
    ) -> None:  # fmt: skip
        reference = reference_of(workload, settings, folder)
        plan = prepare(reference, seed=1, apart=False).plan
        self.plan = msgspec.structs.replace(plan, replicas=replicas, deadline=deadline)
        self.node = RunMemory(self.plan, "together", folder)
        self.members = self.plan.members.of(LEARNER)
        self.hosts = hosts(self.node.site, self.node.plan_file, self.members, begin)
        self._firing = 0
        try:
            self.start()
            self.actors = {
                a: actor_role(self.plan, self._site(Member(ACTORS, a)), self.node.model)[0]
                for a in range(self.plan.actors)
            }
        except BaseException:
            self.close()
            raise

    def _site(self, member: Member) -> Any:
        return msgspec.structs.replace(self.node.site, member=member)

    def start(self) -> None:
        """Start all replicas anew, and wait until they are ready."""
        for member, host in self.hosts.items():
            host.end()
            self.node.board.down(member).clear()
            self.node.board.up(member).clear()
            host.start()
        for member in self.members:
            assert isinstance(self.heard(member), Ready)

    def sample(self) -> tuple[Claim, ...]:
        """Every actor samples a round."""
        claims = []
        for actor, role in self.actors.items():
            start = self.node.blocks[actor].written
            stop = start + self.plan.steps
            role.run(Invoke(0, "actors.sample", "sample", (), stop))
            claims.append(Claim(actor, start, stop))
        return tuple(claims)

    def tell(self, claims: tuple[Claim, ...], *members: Member, method: str = "update") -> None:
        """Ask these, or else all, for an update."""
        self._firing += 1
        call = Invoke(self._firing, f"learner.{method}", method, claims)
        for member in members or self.members:
            self.node.board.down(member).put(encode(call))

    def heard(self, member: Member) -> FromMember:
        """The next message of a replica."""
        data = self.node.board.up(member).get(PATIENCE)
        assert data is not None, f"nothing from {member}"
        return decode_from_member(data)

    def fire(self, method: str, *claims: Claim) -> Done:
        """Have all do something; what the first one says of it."""
        self.tell(claims, method=method)
        told = [self.heard(member) for member in self.members]
        for each in told:
            assert isinstance(each, Done), each
        assert isinstance(told[0], Done)
        return told[0]

    def update(self, *claims: Claim) -> Done:
        """An update by all; what the first one says of it."""
        before = self.node.weights.version
        done = self.fire("update", *claims)
        assert self.node.weights.version == before + 1, "one of them publishes"
        for claim in claims:  # their room is free
            block = self.node.blocks[claim.actor]
            for consumer in self.plan.consumers:
                block.acknowledge(consumer.name, claim.stop, claim.stop)
        return done

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The newest version."""
        return {name: np.copy(array) for name, array in self.node.weights.newest.arrays.items()}

    def pid(self, member: Member) -> int:
        """The process of a replica."""
        ours: Any = self.hosts[member]
        found: int = ours._child.pid
        return found

    def close(self) -> None:
        """End all of it."""
        for host in self.hosts.values():
            host.stop(0.0)
        self.node.close()
