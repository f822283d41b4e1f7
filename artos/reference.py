"""Where a workload comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from artos.closest import closest
from artos.errors import Refused

_OBJECT = re.compile(r"[\w./-]+:[A-Za-z_][\w.-]*")
"""A setting that names an object in a module or file: ``my_env:make``."""


class Reference(msgspec.Struct, frozen=True):
    """``module:object`` or ``/path/file.py:object``, and its settings.

    ``folder`` is the user's folder; it comes first on the import path of user processes.
    """

    source: str
    settings: dict[str, Any] = {}
    folder: str = ""

    @classmethod
    def of(
        cls, workload: str, settings: dict[str, Any], folder: Path, built_in: Mapping[str, str]
    ) -> Reference:
        """Where ``ALGORITHM``, one of those ``built_in``, or ``FILE.py:OBJECT`` comes from.

        Raises:
            Refused: ``workload`` is neither an algorithm nor a file with an object.
        """
        if workload in built_in:
            # Nothing else is imported from the user's folder, whoever has chosen it.
            named = any(_OBJECT.fullmatch(str(value)) for value in settings.values())
            return cls(built_in[workload], settings, str(folder) if named else "")
        place, name = file_and_object(workload)
        if not place:
            raise Refused([_unknown(workload, folder, list(built_in))])
        path = (folder / place).resolve()
        return cls(f"{path}:{name}", settings, str(path.parent))


def file_and_object(workload: str) -> tuple[str, str]:
    """Split ``FILE.py:OBJECT``; OBJECT may be missing (""), and without a ``.py`` file both are."""
    place, _, name = (workload + ":" * workload.endswith(".py")).rpartition(":")
    return (place, name) if place.endswith(".py") else ("", "")


def _unknown(workload: str, folder: Path, built_in: list[str]) -> str:
    place, _, name = workload.rpartition(":")
    file = f"{place or name}.py"
    if (folder / file).is_file():
        hint = f": did you mean {file}{f':{name}' * bool(place)}?"
    else:
        hint = closest(workload, built_in)
    return f"unknown workload {workload!r}{hint} (have {', '.join(built_in)}, or FILE.py:OBJECT)"
