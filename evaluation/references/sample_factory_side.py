"""One training run of Sample Factory: mean returns in each tenth of its steps.

``python -m evaluation.references.sample_factory_side "APPO, CartPole" 1 100000``
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from typing import Any

from sample_factory.algo.runners.runner import Runner
from sample_factory.model.actor_critic import ActorCritic

from evaluation.baselines import first_weights
from evaluation.baselines.timing import answer
from evaluation.references.curves import parts
from evaluation.references.every_task import EVERY
from evaluation.references.task import Task

_EXAMPLE = "sf_examples.train_gym_env"

# Here, as its processes import this module.
ActorCritic.initialize_weights = lambda _, layer: first_weights.begin(layer)


def run(task: Task, seed: int, steps: int) -> list[float]:
    """Train with this seed; returns the curve."""
    at, returns = list[float](), list[float]()
    told = Runner._episodic_stats_handler

    def noted(runner: Any, message: Any, policy: int) -> None:
        told(runner, message, policy)
        at.append(float(runner.env_steps.get(policy, 0)))
        returns.append(float(message["episodic"]["reward"]))

    Runner._episodic_stats_handler = staticmethod(noted)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = [f"--{name}={value}" for name, value in task.theirs.items()]
        sys.argv = [
            _EXAMPLE, *words, f"--env={task.env}", f"--seed={seed}",
            "--encoder_mlp_layers", "64", "64", f"--train_for_env_steps={steps}",
            "--algo=APPO", "--device=cpu", f"--train_dir={folder}", "--experiment=bench",
            "--save_every_sec=100000",
        ]  # fmt: skip
        importlib.import_module(_EXAMPLE).main()
    return parts(at, returns, steps, task.low)


def main() -> None:
    """Train once."""
    name, seed, steps = sys.argv[1:]
    curve = run(EVERY[name], int(seed), int(steps))
    rates = {str(number): value for number, value in enumerate(curve)}
    answer(rates, ("sample-factory", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
