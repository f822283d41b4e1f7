"""A user's request for a run, and where its workload is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artos.closest import closest
from artos.errors import Refused
from artos.reference import Reference
from artos.runtime.preload import Preloaded
from triggers.algorithms import BUILT_IN


@dataclass(frozen=True)
class Request:
    """A user's request for a run. ``settings`` are the flags and every ``--set``.

    ``deadline``: seconds a member may take to carry out one invocation. ``origin`` is where the
    request was made (``provenance.origin``), if not in this process.
    """

    workload: str
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    run_dir: Path | None = None
    inline: bool = False
    quiet: bool = False
    folder: Path = field(default_factory=Path.cwd)
    deadline: float = 300.0
    origin: dict[str, Any] = field(default_factory=dict)

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
        """See ``reference_of``."""
        return reference_of(self.workload, self.settings, self.folder)

    def preload(self) -> AbstractContextManager[Preloaded | None]:
        """Begin to import the workload's code in a preload process, from which others are forked.

        None for an inline run, which is a single process.
        """
        return nullcontext() if self.inline else Preloaded(self.reference())


def reference_of(workload: str, settings: dict[str, Any], folder: Path) -> Reference:
    """Where the workload ``ALGORITHM`` or ``FILE.py:OBJECT`` comes from.

    Raises:
        Refused: ``workload`` is neither an algorithm nor a file with an object.
    """
    if workload in BUILT_IN:
        return Reference(BUILT_IN[workload], settings, str(folder))
    place, name = file_and_object(workload)
    if not place:
        raise Refused([_unknown(workload, folder)])
    path = (folder / place).resolve()
    return Reference(f"{path}:{name}", settings, str(path.parent))


def file_and_object(workload: str) -> tuple[str, str]:
    """Split ``FILE.py:OBJECT``; OBJECT may be missing (""), and without a ``.py`` file both are."""
    place, _, name = (workload + ":" * workload.endswith(".py")).rpartition(":")
    return (place, name) if place.endswith(".py") else ("", "")


def _unknown(workload: str, folder: Path) -> str:
    place, _, name = workload.rpartition(":")
    file = f"{place or name}.py"
    if (folder / file).is_file():
        hint = f": did you mean {file}{f':{name}' * bool(place)}?"
    else:
        hint = closest(workload, list(BUILT_IN))
    return f"unknown workload {workload!r}{hint} (have {', '.join(BUILT_IN)}, or FILE.py:OBJECT)"
