"""``artos bench catalogue``: as ``references``, of the other algorithms that somebody else has.

Each has a bar, and three seeds.
"""

from __future__ import annotations

from evaluation.catalogue.tasks import TASKS
from evaluation.references.bench import of

BENCHMARK = of("catalogue", TASKS, least=3)
