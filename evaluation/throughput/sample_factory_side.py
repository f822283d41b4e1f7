"""APPO of Sample Factory: the slope of its learner's step counter, without start-up.

``python -m evaluation.throughput.sample_factory_side --case cartpole --steps 60000``

On Atari it counts emulator frames; the answer is in agent steps, as for all contestants. What it
does by default and the others do not is off: scaling of observations and returns, clipping of
values, and, where others sample and learn in turn, learning from older rows. On CartPole its policy
and its value share their layers, which spares it half of the others' network; and its minibatches
are not shuffled, as by default.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import ale_py.registration
import gymnasium
from sample_factory.algo.runners.runner import Runner

from evaluation.baselines.timing import answer


@dataclass(frozen=True)
class Case:
    """A setting: the example it is based on, its number of agent steps, and its arguments.

    ``skip`` is the number of environment steps its counter adds for one agent step.
    """

    module: str
    steps: int
    arguments: tuple[str, ...]
    skip: int = 1


_GYM, _ATARI = "sf_examples.train_gym_env", "sf_examples.atari.train_atari"
# Values: a quarter of the square, as the others' half of a half.
_LOSS = ("--normalize_input=False", "--normalize_returns=False", "--ppo_clip_value=1000000",
         "--value_loss_coeff=0.25", "--exploration_loss_coeff=0.01", "--max_grad_norm=0.5",
         "--learning_rate=0.00025", "--lr_schedule=constant")  # fmt: skip
_CARTPOLE = ("--env=CartPole-v1", "--use_rnn=False", "--ppo_clip_ratio=0.2",
             "--encoder_mlp_layers", "64", "64", "--nonlinearity=tanh")  # fmt: skip
_FOUR_EPOCHS = (
    "--async_rl=False",
    "--num_envs_per_worker=4",
    "--num_epochs=4",
    "--batch_size=256",
    "--num_batches_per_epoch=4",
)
_WIDE = ("--num_envs_per_worker=32", "--rollout=32", "--batched_sampling=True")

CASES = {
    "cartpole": Case(_GYM, 60_000, (*_CARTPOLE, *_FOUR_EPOCHS, "--rollout=128")),
    "cartpole-short": Case(_GYM, 60_000, (*_CARTPOLE, *_FOUR_EPOCHS, "--rollout=32")),
    "cartpole-serial": Case(
        _GYM, 60_000, (*_CARTPOLE, *_FOUR_EPOCHS, "--rollout=128", "--serial_mode=True")
    ),
    "cartpole-wide": Case(_GYM, 250_000, (*_CARTPOLE, *_WIDE)),
    # Its own Atari defaults are the others' settings: in turn, 4 epochs of 4 × 256, clipped at 0.1.
    "pong": Case(_ATARI, 9_000, ("--env=atari_pong", "--num_envs_per_worker=4"), skip=4),
    # Asynchronous with one epoch, for which the system was built.
    "pong-async": Case(
        _ATARI, 25_000,
        ("--env=atari_pong", "--num_envs_per_worker=8", "--async_rl=True", "--num_epochs=1",
         "--worker_num_splits=2", "--rollout=32", "--with_vtrace=False",
         "--num_batches_per_epoch=1"),
        skip=4,
    ),
}  # fmt: skip


def register_atari() -> None:
    """Give gymnasium 0.29 the old Atari names; called on import, as workers need them too."""
    if "PongNoFrameskip-v4" not in gymnasium.registry:
        ale_py.registration.register_v0_v4_envs()  # type: ignore[no-untyped-call]


def run(case: Case, steps: int) -> list[tuple[float, int]]:
    """Train; returns the times at which the learner's step counter changed, and its values."""
    points: list[tuple[float, int]] = []
    count = Runner._learner_steps_handler

    def counted(runner: Any, message: Any, policy: int) -> None:
        count(runner, message, policy)
        points.append((time.perf_counter(), runner.env_steps[policy]))

    Runner._learner_steps_handler = staticmethod(counted)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sys.argv = [
            case.module, *case.arguments, *_LOSS, f"--train_for_env_steps={steps * case.skip}",
            "--algo=APPO", "--device=cpu", "--num_workers=2", f"--train_dir={folder}",
            "--experiment=bench", "--save_every_sec=100000",
        ]  # fmt: skip
        importlib.import_module(case.module).main()
    return points


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), default="cartpole")
    parser.add_argument("--steps", type=int, default=0, help="agent steps (0: as the case says)")
    options = parser.parse_args()
    case = CASES[options.case]
    points = run(case, options.steps or case.steps)
    (start, first), (end, last) = points[0], points[-1]
    pace = (last - first) / (end - start) / case.skip
    answer({"steps_per_second": pace}, ("sample-factory", "torch", "gymnasium"))


register_atari()

if __name__ == "__main__":
    main()
