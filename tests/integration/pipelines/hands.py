"""PPO's roles on real rows, called by hand in whatever order a test is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from named import LEARNER
from numpy.typing import NDArray

from artos.protocol.invocations import Claim, Done, Invoke
from artos.runs.run_memory import RunMemory
from artos.runtime.member import LearnerRole
from artos.runtime.serving import actor_role, learner_role
from artos.specs.members import ACTORS, Member
from artos.system.closing import Closing
from head.run.request import reference_of
from triggers.registration import prepare

STEPS = 16
SMALL = {
    "actors": 3, "envs": 2, "steps": STEPS, "hidden": [16], "minibatches": 1, "epochs": 1,
    "anneal": False,
}  # fmt: skip


class Hands(Closing):
    """A run's shared memory, its actors, and a learner that does what it is told.

    ``gradients`` are those it stepped with so far, before they were clipped.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        reference = reference_of("ppo", SMALL | settings, folder)
        self.plan = prepare(reference, seed=1, apart=False).plan
        self.node = RunMemory(self.plan, "hands", folder)
        self.gradients: list[NDArray[np.float32]] = []
        self._firing = 0
        self.learner = self.begin_learner()
        self._actors = {
            actor: actor_role(self.plan, self._site(Member(ACTORS, actor)), self.node.model)[0]
            for actor in range(self.plan.actors)
        }

    def _site(self, member: Member) -> Any:
        return msgspec.structs.replace(self.node.site, member=member)

    def begin_learner(self) -> LearnerRole:
        """A learner's process begins: it knows nothing but what was published."""
        self.learner = learner_role(self.plan, self._site(LEARNER), self.node.model)
        ours: Any = self.learner
        self.ppo = ours._learner
        self.ppo.network.observe = None
        apply = self.ppo.network.apply

        def noted() -> None:
            self.gradients.append(self.ppo.network.weights.grad.numpy().copy())
            apply()

        self.ppo.network.apply = noted
        return self.learner

    def sample(self, rounds: int = 1) -> tuple[Claim, ...]:
        """Every actor samples; the claims of the last round."""
        for _ in range(rounds):
            claims = []
            for actor, role in self._actors.items():
                start = self.node.blocks[actor].written
                role.run(Invoke(0, "actors.sample", "sample", (), start + self.plan.steps))
                claims.append(Claim(actor, start, start + self.plan.steps))
        return tuple(claims)

    def fire(self, method: str, *claims: Claim) -> Done:
        """Have the learner do something."""
        self._firing += 1
        return self.learner.run(Invoke(self._firing, f"learner.{method}", method, claims))

    def acknowledge(self, claims: tuple[Claim, ...]) -> None:
        """Make room: these rows were learned from."""
        for claim in claims:
            for consumer in self.plan.consumers:
                self.node.blocks[claim.actor].acknowledge(consumer.name, claim.stop, claim.stop)

    @property
    def params(self) -> NDArray[np.float32]:
        """The weights as the learner has them."""
        found: NDArray[np.float32] = self.ppo.live()["params"].numpy()
        return found.copy()

    def close(self) -> None:
        """Remove everything."""
        for role in self._actors.values():
            role.close()
        self.node.close()


def written(book: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """The part of a book that there are rows for; nothing may be beyond it."""
    assert not book[:, rows:].any()
    return book[:, :rows]


def only(gradients: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The one there is."""
    (gradient,) = gradients
    return gradient
