"""REINFORCE (Williams 1992): learns from whole episodes, however long each of them is."""

from artos import (
    EpisodeBatch,
    Episodes,
    Invoke,
    Policy,
    RolloutActor,
    TorchLearner,
    Workload,
    discounted,
)
from triggers import DataKeyTrigger, RoundTrigger

KEYS = ("observations", "actions", "rewards")


class Reinforce(TorchLearner):
    """Each action becomes as much likelier as the return that followed it is above the mean."""

    calls = ("evaluate",)
    reads = KEYS

    def __init__(self, lr: float, gamma: float) -> None:
        super().__init__(lr=lr)
        self.gamma = gamma

    def update(self, batch: EpisodeBatch, call: Invoke) -> dict[str, float]:
        """One gradient step with the N rows of all episodes."""
        returns = batch.flat(discounted(batch.padded("rewards"), self.gamma))
        weight = self.tensor((returns - returns.mean()) / (returns.std() + 1e-8))
        log_probs, entropy, _ = self.module.evaluate(
            self.observations(batch), self.tensor(batch["actions"])
        )
        loss = -(weight * log_probs).mean()
        self.step(loss)
        return {"length": float(batch.lengths.mean()), "entropy": entropy.mean().item()}


def workload(
    env: str = "CartPole-v1", actors: int = 2, *, envs: int = 4, episodes: int = 16,
    capacity: int = 2_048, total_steps: int = 100_000, lr: float = 5e-3, gamma: float = 0.99,
) -> Workload:  # fmt: skip
    """What ``artos run my_reinforce.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="reinforce",
        actor=RolloutActor(env, Policy(hidden=(64, 64)), envs=envs),
        learner=Reinforce(lr, gamma),
        triggers={
            "learner.update": DataKeyTrigger(KEYS, sample=Episodes(episodes)),
            "actors.sample": RoundTrigger(ahead=1),
        },
        actors=actors, steps=32, capacity=capacity, total_steps=total_steps,
    )  # fmt: skip
