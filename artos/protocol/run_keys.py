"""Keys of one run: its processes have no others where they run under an account of its user."""

from __future__ import annotations

import msgspec

from artos.specs.fields import Line


class RunKeys(msgspec.Struct, frozen=True):
    """The pair of the run's end and the pair of its executors; secrets are "" where not needed."""

    head: Line
    head_secret: Line
    executor: Line
    executor_secret: Line

    @property
    def of_executor(self) -> RunKeys:
        """What an executor needs to talk to the run."""
        return RunKeys(self.head, "", self.executor, self.executor_secret)

    def __repr__(self) -> str:
        return "<RunKeys>"
