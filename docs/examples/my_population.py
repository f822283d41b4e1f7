"""Population-based training (Jaderberg et al. 2017) of the toy in Figure 2 there; in NumPy.

Both members want to raise 1.2 - x² - y², and see only a stand-in: 1.2 - a x² - b y². With a = 1 and
b = 0, or a = 0 and b = 1, neither ever gets there. As a population they do.
"""

import numpy as np

from artos import Actor, ActorContext, Batch, DataKey, Invoke, Learner, LearnerContext, Workload
from triggers import CountTrigger, DataKeyTrigger, ObjectKeyTrigger

MEMBERS = ("one", "two")


class Examiner(Actor):
    """Scores both members in each row; it acts with the weights of one, and reads the other's."""

    envs = 1
    reads = ("two/model_param",)

    def data_keys(self) -> tuple[DataKey, ...]:
        """A score for each member."""
        return (DataKey("scores", (len(MEMBERS),)),)

    def build_module(self, seed: int) -> np.ndarray:
        """Where everybody begins."""
        return np.array([0.9, 0.9], np.float32)

    def setup(self, context: ActorContext) -> None:
        """Take the block of rows and the seed, which no other actor has."""
        self.block, self.random = context.block, np.random.default_rng(context.seed)

    def bind(self, params: np.ndarray, version: int) -> None:
        """Score these from now on."""
        both = np.stack([params, self.bound.objects["two/model_param"]])
        self.version, self.scores = version, 1.2 - (both**2).sum(1)

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Scores are noisy, as returns are."""
        arrays, capacity = self.block.arrays, self.block.spec.capacity
        for row in (step % capacity for step in range(start, start + rows)):
            arrays["scores"][row] = self.scores + self.random.normal(0, 0.01, len(MEMBERS))
            arrays["policy_version"][row] = self.version
        return {}


class Member(Learner):
    """Ascends its stand-in with momentum; what it goes by is part of its state, and so is copied.

    ``exploit`` is called when it is time to compare.
    """

    reads = ("scores",)

    def __init__(self, own: int, sees: tuple[float, float], lr: float) -> None:
        self.own, self.lr, self.noticed = own, lr, np.zeros(len(MEMBERS))
        self.sees = np.array(sees, np.float64)

    def setup(self, context: LearnerContext) -> None:
        """Own weights, momentum and the weights of the stand-in."""
        self.context, self.random = context, np.random.default_rng(context.seed)
        self.params, self.momentum = context.module.copy(), np.zeros(2)

    def live(self) -> dict[str, np.ndarray]:
        """A version: also what other members copy."""
        own = {"learner.momentum": self.momentum, "learner.sees": self.sees}
        return {"params": self.params, **own}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """A step up the stand-in; the scores say how good that really was."""
        self.noticed = batch.gather("scores").reshape(-1, len(MEMBERS)).mean(0)
        self.momentum[:] = 0.9 * self.momentum - 2 * self.sees * self.params
        self.params += np.float32(self.lr) * self.momentum.astype(np.float32)
        self.fresh = True
        return {"score": float(self.noticed[self.own])}

    def exploit(self, batch: None, call: Invoke) -> dict[str, float]:
        """If another member is better, take over all that it is; then see things differently."""
        best = int(self.noticed.argmax())
        found = self.context.state_of(MEMBERS[best]) if best != self.own else {}
        if not found:
            return {"copied": 0.0}
        for name, array in self.live().items():
            np.copyto(array, found[name])
        self.sees += self.random.normal(0, 0.3, 2)
        np.clip(self.sees, 0, 1, self.sees)
        self.fresh = True
        return {"copied": 1.0}


def workload(total_updates: int = 300, lr: float = 0.005, every: int = 20) -> Workload:
    """What ``artos run my_population.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="population",
        actor=Examiner(),
        learners={"one": Member(0, (1, 0), lr), "two": Member(1, (0, 1), lr)},
        triggers={
            "one.update": DataKeyTrigger("scores", size=4),
            "two.update": DataKeyTrigger("scores", size=4),
            "one.exploit": CountTrigger(rows=4 * every),
            "two.exploit": CountTrigger(rows=4 * every),
            "actors.sample": ObjectKeyTrigger("one/model_param"),
        },
        actors=1, steps=4, total_steps=0, total_updates=total_updates,
    )  # fmt: skip
