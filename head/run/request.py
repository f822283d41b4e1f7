"""A user's request for a run, and where its workload is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artos.runs.run_config import DEADLINE
from artos.runtime.preload import Preloaded
from artos.specs.reference import Reference
from triggers.algorithms import BUILT_IN


@dataclass(frozen=True)
class Request:
    """A user's request for a run."""

    workload: str
    settings: dict[str, Any] = field(default_factory=dict)
    """The flags and every ``--set``."""
    seed: int = 1
    run_dir: Path | None = None
    inline: bool = False
    quiet: bool = False
    folder: Path = field(default_factory=Path.cwd)
    deadline: float = DEADLINE
    """Seconds that a member may take to carry out one invocation."""
    origin: dict[str, Any] = field(default_factory=dict)
    """Where the request was made (``provenance.origin``), if not in this process."""

    def config(self) -> dict[str, Any]:
        """What the run's configuration file keeps of the request."""
        return {
            "workload": self.workload,
            "settings": self.settings,
            "seed": self.seed,
            "inline": self.inline,
            "folder": str(self.folder),
            "deadline": self.deadline,
        }

    def reference(self) -> Reference:
        """How the workload is found and set up."""
        return reference_of(self.workload, self.settings, self.folder)

    def preload(self) -> AbstractContextManager[Preloaded | None]:
        """Begin to import the workload's code in a preload process, from which others are forked.

        None for an inline run, which is a single process.
        """
        return nullcontext() if self.inline else Preloaded(self.reference())


def reference_of(workload: str, settings: dict[str, Any], folder: Path) -> Reference:
    """Where the workload ``ALGORITHM`` or ``FILE.py:OBJECT`` comes from, see ``Reference.of``."""
    return Reference.of(workload, settings, folder, BUILT_IN)
