"""Times a script with Stable-Baselines3: until the first step, and until the end of a short run.

``python -m evaluation.startup.sb3_side --env cartpole --threads 2`` runs itself again with
``--train`` and answers with ``first_s``, seconds from the command to the first step of an
environment, and ``all_s``, seconds until the prompt is back.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

ENVS, STEPS = 8, 128


def train(options: argparse.Namespace) -> None:
    """Train PPO as in the throughput benchmark; prints the time of the first step."""
    from evaluation.throughput import sb3_side  # noqa: PLC0415

    words = ["--env", options.env, "--envs", str(ENVS), "--steps", str(STEPS)]
    words += ["--threads", str(options.threads)]
    model = sb3_side.build(sb3_side.options_of(words))
    environments = model.get_env()
    step_async = environments.step_async

    def first(actions: object) -> None:
        print(time.time(), flush=True)
        environments.step_async = step_async
        step_async(actions)

    environments.step_async = first
    model.learn(options.steps)
    environments.close()


def main() -> None:
    """Measure once, or with ``--train`` be the measured script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=("cartpole", "pong"), default="cartpole")
    parser.add_argument("--steps", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    if options.train:
        train(options)
        return
    from evaluation.baselines.timing import answer  # noqa: PLC0415

    start = time.time()
    command = [sys.executable, *sys.orig_argv[1:], "--train"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rates = {"first_s": float(done.stdout.split()[0]) - start, "all_s": time.time() - start}
    answer(rates, ("stable-baselines3", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
