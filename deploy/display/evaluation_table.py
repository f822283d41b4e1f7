"""What an evaluation found, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from artos.trained.evaluation import Evaluation
    from artos.trained.trained import Trained

_COLUMNS: dict[str, Any] = {"mean": np.mean, "std": np.std, "least": np.min, "most": np.max}


def text(trained: Trained, evaluation: Evaluation) -> str:
    """The policy and how it was played, a table of returns and lengths, and the videos."""
    count = len(evaluation.returns)
    how = "greedy" if evaluation.greedy else "sampling as in training"
    title = (
        f"{trained.config.get('algorithm', '')} on {evaluation.env} after {trained.steps:,} steps: "
        f"{count} episode{'s' * (count != 1)}, {how}, seed {evaluation.seed}"
    )
    rows = [_row("", [*_COLUMNS])]
    for name, values in (("return", evaluation.returns), ("length", evaluation.lengths)):
        rows.append(_row(name, [f"{float(found(values)):.4g}" for found in _COLUMNS.values()]))
    rows += [_row(name, [f"{mean:.4g}"]) for name, mean in evaluation.by_agent.items()]
    return "\n".join([title, *rows, *evaluation.videos])


def _row(name: str, cells: list[str]) -> str:
    return f"{name:8}" + "".join(f"{cell:>10}" for cell in cells)
