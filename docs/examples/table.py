"""PPO as a table of triggers."""

from artos import PPO, RolloutActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations")
POLICY = ("log_probs", "values", "bootstraps")

ppo = Workload(
    name="my-ppo", actors=2, steps=128, total_steps=100_000,
    actor=RolloutActor("CartPole-v1", envs=4), learner=PPO(lr=1e-3),
    triggers={
        "learner.update": DataKeyTrigger(ROW + POLICY, n=2, size=128),  # a full batch
        "actors.sample": ObjectKeyTrigger("model_param"),  # new weights
    },
)  # fmt: skip
