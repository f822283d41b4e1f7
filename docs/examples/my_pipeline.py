"""A pipeline of one's own: A2C from ``my_algo.py`` that learns from each actor as its rows come."""

from dataclasses import replace

from my_algo import A2C, KEYS, workload

from artos import AdvantageCache, Batch, Invoke, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, TransferTrigger

SMALL = ("rewards", "values", "bootstraps", "terminations", "truncations")
STAGES = (SMALL, ("actions",), ("observations",))


class EagerA2C(A2C):
    """Adds up one gradient per actor; what is left for an update is to step with the sum."""

    non_publishing = ("weigh", "absorb")  # they publish nothing

    def setup(self, context) -> None:
        """Begin with nothing known, which is so after a crash too."""
        super().setup(context)
        self.known, self.absorbed = AdvantageCache(context.blocks, self.gamma, self.lam), set()

    def weigh(self, batch: Batch, call: Invoke) -> None:
        """Advantages of one actor, while its actions and observations are on their way."""
        self.known.add(batch)

    def absorb(self, batch: Batch, call: Invoke) -> None:
        """Add the gradient of one actor's rows to that of the next step."""
        weight, target = map(self.flat, self.known.of(batch))
        seen = {"observations": self.flat(batch.gather("observations"))}
        log_probs, entropy, values = self.module.evaluate(seen, self.flat(batch.gather("actions")))
        policy_loss = -(weight / (weight.std() + 1e-8) * log_probs).mean()
        value_loss = (values - target).square().mean()
        loss = policy_loss + 0.5 * value_loss - self.entropy_bonus * entropy.mean()
        self.network.backward(loss / self.context.plan.actors)
        self.absorbed.update(batch.claims)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Absorb whatever was not, and step."""
        left = [claim for claim in batch.claims if claim not in self.absorbed]
        for claim in left:
            self.absorb(Batch(self.context.blocks, [claim]), call)
        self.network.optimiser.lr = self.lr * (1 - call.progress)
        self.network.apply()
        self.known.forget(batch.claims)
        self.absorbed.clear()
        return {"absorbed_late": float(len(left))}


def eager(actors: int = 4, total_steps: int = 100_000) -> Workload:
    """Rewards are shipped first, observations last; the learner works on whatever has come."""
    base = workload(actors=actors, total_steps=total_steps)
    rows = base.steps
    table = {
        "transfer": TransferTrigger(STAGES, size=rows),
        "learner.weigh": DataKeyTrigger(SMALL, n=1, size=rows),
        "learner.absorb": DataKeyTrigger(KEYS, n=1, size=rows),
        "learner.update": DataKeyTrigger(KEYS, size=rows),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    learner = EagerA2C(lr=3e-3, gamma=0.99, lam=0.95, entropy_bonus=0.01)
    return replace(base, name="a2c-eager", learner=learner, triggers=table)
