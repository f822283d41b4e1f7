"""The names by which processes that did not make a workload find it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.specs.workload import Workload
from deploy.api.cells import kept


def name_of(workload: Any, names: Mapping[str, Any]) -> str:
    """``FILE.py:OBJECT`` of a workload, or of a function that returns one; a text names itself.

    ``names`` are the global names of the caller, among which a ``Workload`` is looked for. What a
    notebook or a prompt has made is written to a file of the current folder.

    Raises:
        Refused: it has no name that is found in a file.
    """
    if isinstance(workload, str):
        return workload
    if inspect.isclass(workload):
        raise Refused(
            [f"{workload.__name__} is a class: give a Workload that is made with it, or a function "
             "that returns one"]
        )  # fmt: skip
    if isinstance(workload, Workload):
        file = names.get("__file__", "")
        bound = [name for name, value in [*names.items()] if value is workload]
        found = min(bound, key=lambda name: name.startswith("_"), default="")
    else:
        file = inspect.getsourcefile(workload) if inspect.isfunction(workload) else ""
        found = getattr(workload, "__qualname__", "")
    if file and Path(file).is_file() and found.isidentifier():
        return f"{Path(file).resolve()}:{found}"
    is_prompt = (
        names.get("__name__") == "__main__" and not Path(names.get("__file__", "")).is_file()
    )
    if is_prompt and found.isidentifier() and names.get(found) is workload:
        return f"{kept(workload, found, Path.cwd())}:{found}"
    raise Refused(
        [f"{workload!r} cannot be found by the processes of a run: have it stand in a file under a "
         "name of its own, and give it, or 'FILE.py:NAME'"]
    )  # fmt: skip
