"""One training run by the ``artos`` command: mean returns in each tenth of its steps.

``python -m evaluation.references.artos_side "DQN, CartPole" 1 50000``
"""

from __future__ import annotations

import sys
from typing import Any

from evaluation.baselines.timing import answer
from evaluation.core.one_run import trained
from evaluation.references.curves import parts
from evaluation.references.every_task import EVERY
from evaluation.references.task import Task
from head.records.episodes import Episodes


def run(task: Task, seed: int, steps: int) -> list[float]:
    """Train with this seed; returns the curve."""
    settings = {name: str(value).lower() for name, value in task.ours.items()}
    words = ["run", settings.pop("algorithm"), "--env", task.env, "--seed", str(seed)]
    words += ["--actors", settings.pop("actors"), "--total-steps", str(steps)]
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with trained(words) as folder:
        episodes = Episodes.read(folder / "episodes.csv")
    return parts(_ends(episodes, task.ours), episodes.returns.tolist(), steps, task.low)


def _ends(episodes: Episodes, ours: dict[str, Any]) -> list[float]:
    """Steps of environments until each episode ended, as other libraries count them.

    A run notes an episode when its round is reported, and counts rows, of which some only reset.
    Of one environment the lengths of its episodes say it exactly; of several, which are stepped at
    the same time, an episode ends in the middle of its round on average.
    """
    side_by_side = ours["actors"] * ours["envs"]
    if side_by_side == 1:
        return [float(step) for step in episodes.lengths.cumsum()]
    late = side_by_side * (ours["steps"] - 1) / 2
    return [float(step - late) for step in episodes.steps]


def main() -> None:
    """Train once."""
    name, seed, steps = sys.argv[1:]
    curve = run(EVERY[name], int(seed), int(steps))
    answer({str(number): value for number, value in enumerate(curve)}, ("torch", "gymnasium"))


if __name__ == "__main__":
    main()
