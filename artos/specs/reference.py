"""Where a workload comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from artos.errors import Refused
from artos.specs.named import objects_named
from artos.system.closest import closest

RecordedFolder = Annotated[str, msgspec.Meta(pattern=r"\A(?:/[^\0]*)?\Z")]
"""A folder of code as a record names it: absolute, so it is the same wherever it is read."""


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

        ``PACKAGE.MODULE:OBJECT`` is that file in ``folder``.

        Raises:
            Refused: ``workload`` is neither an algorithm nor a file with an object.
        """
        if workload in built_in:
            # Nothing else is imported from the user's folder, no matter who has chosen it.
            named = objects_named(settings)
            return cls(built_in[workload], settings, str(folder) if named else "")
        place, name = file_and_object(workload, folder)
        if not place:
            place, _, name = workload.rpartition(":")
            file = f"{place or name}.py"
            if (folder / file).is_file():
                hint = f": did you mean {file}{f':{name}' * bool(place)}?"
            else:
                hint = closest(workload, list(built_in))
            have = ", ".join(built_in)
            raise Refused([f"unknown workload {workload!r}{hint} (have {have}, or FILE.py:OBJECT)"])
        path = (folder / place).resolve()
        return cls(f"{path}:{name}", settings, str(path.parent))


def file_and_object(workload: str, folder: Path) -> tuple[str, str]:
    """Split ``FILE.py:OBJECT``; OBJECT may be missing (""), and without a ``.py`` file both are.

    ``PACKAGE.MODULE:OBJECT`` is ``PACKAGE/MODULE.py:OBJECT`` where ``folder`` has that file.
    """
    place, _, name = (workload + ":" * workload.endswith(".py")).rpartition(":")
    parts = place.split(".")
    if len(parts) > 1 and parts[-1] != "py" and all(part.isidentifier() for part in parts):
        inside = "/".join(parts) + ".py"
        place = inside if (folder / inside).is_file() else place
    return (place, name) if place.endswith(".py") else ("", "")


def package_of(file: Path) -> tuple[str, Path]:
    """The package that a file is in ("": in none), and the folder of its outermost one."""
    parts: list[str] = []
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder
