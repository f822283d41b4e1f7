"""V-trace: actors that never wait for an update, and a learner that corrects for their lag."""

import numpy as np
import torch

from artos import Batch, Invoke, RolloutActor, TorchLearner, Workload, vtrace
from triggers import DataKeyTrigger, ObjectKeyTrigger

SEEN = ("observations", "actions", "log_probs")
EARNED = ("rewards", "bootstraps", "terminations", "truncations")


class VTrace(TorchLearner):
    """One step for the round of one actor."""

    calls = ("evaluate",)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from ``batch``, whose arrays are (actors, steps, environments, ...)."""
        rows = {key: batch.gather(key) for key in (*SEEN, *EARNED)}
        observations = {"observations": self.flat(rows["observations"])}
        log_probs, entropy, values = self.module.evaluate(observations, self.flat(rows["actions"]))
        now, known = (
            each.detach().cpu().numpy().reshape(batch.shape) for each in (log_probs, values)
        )
        advantage, target = vtrace(
            now - rows["log_probs"], values=known, gamma=0.99, **{key: rows[key] for key in EARNED}
        )
        policy_loss = -(self.flat(advantage) * log_probs).mean()
        value_loss = (values - self.flat(target)).square().mean()
        self.step(policy_loss + 0.5 * value_loss - 0.01 * entropy.mean())
        return {"policy_loss": policy_loss.item(), "value_loss": value_loss.item()}

    def flat(self, array: np.ndarray) -> torch.Tensor:
        """The first three axes as one: a row per environment step."""
        return self.tensor(array.reshape(-1, *array.shape[3:]))


def workload(env: str = "CartPole-v1", actors: int = 2, total_steps: int = 100_000) -> Workload:
    """What ``artos run my_vtrace.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="vtrace",
        actor=RolloutActor(env, envs=4),
        learner=VTrace(lr=1e-3),
        triggers={
            "learner.update": DataKeyTrigger((*SEEN, *EARNED), n=1, size=20, max_lag=2 * actors),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=20, total_steps=total_steps,
    )  # fmt: skip
