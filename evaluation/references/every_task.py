"""The tasks of all benchmarks that compare learning, by name."""

from __future__ import annotations

from evaluation.catalogue.tasks import TASKS as MORE
from evaluation.references.tasks import TASKS

EVERY = TASKS | MORE
