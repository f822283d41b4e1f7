"""``artos run grpo``, and the update in which its texts were right for the first time.

``artos run evaluation/tokens/counted.py:workload --set max_lag=4``. A run's ``progress.csv`` has a
row every half second, and so not each update.
"""

from __future__ import annotations

from dataclasses import replace

from artos.buffer.samplers.batch import Batch
from artos.learners.context import LearnerContext
from artos.protocol.invocations import Invoke
from artos.specs.workload import Workload
from evaluation.baselines.one_file_grpo import RIGHT
from triggers.algorithms.grpo import GRPO
from triggers.algorithms.grpo import workload as grpo

REACHED = "reached"


class Counted(GRPO):
    """Its metric ``reached`` is the number of that update, and 0 until then."""

    def setup(self, context: LearnerContext) -> None:
        """Begin to count."""
        super().setup(context)
        self._made = self._reached = 0

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """As GRPO's."""
        found = super().update(batch, call)
        self._made += 1
        if not self._reached and found["exact_match"] >= RIGHT:
            self._reached = self._made
        return found | {REACHED: self._reached}


def workload(
    env: str = "ReverseText-v0", actors: int = 2, total_steps: int = 0, *,
    groups: int = 16, group: int = 16, max_lag: int = 1,
) -> Workload:  # fmt: skip
    """With the defaults of ``grpo``."""
    made = grpo(env, actors, total_steps, groups=groups, group=group, max_lag=max_lag)
    settings = made.learner.settings  # type: ignore[union-attr]  # it is a GRPO
    return replace(made, learner=Counted(settings))
