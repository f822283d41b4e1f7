"""Objects of modules and files that settings name: an environment, its wrappers, a reward.

Whoever names one has it imported and called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.specs.address import parted

ENV_ARGS = "env_args"
"""The setting with arguments of the environment."""
WRAPPERS = "wrappers"
"""That argument of an environment which names wrappers."""
VECTOR, GAMES = "vector:", "pettingzoo:"
"""What stands before an address of the environment's own vector form, and of a game."""

_OBJECT = re.compile(r"[\w./-]+:[A-Za-z_]")
_INSIDE = re.compile(r"[\w./-]+:[A-Za-z_][\w./-]*")


def objects_named(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Each ``module:object`` that settings name, without its arguments."""
    return tuple(dict.fromkeys(o for name, value in settings.items() for o in _named(name, value)))


def _named(name: str, value: Any) -> Iterator[str]:
    arguments = value
    if name != ENV_ARGS:
        text = str(value)
        if _OBJECT.match(text.removeprefix(VECTOR)):
            yield text.partition("(")[0]
        try:
            arguments = parted(text)[1]
        except Refused:  # no environment is made from it
            return
    if isinstance(arguments, Mapping) and WRAPPERS in arguments:
        # As text, so that what it says is found however it is written.
        yield from _INSIDE.findall(str(arguments[WRAPPERS]))


def file_of(named: str, folder: Path) -> Path | None:
    """The file, or the folder of a package, in ``folder`` that an object is imported from."""
    module, _, name = named.removeprefix(VECTOR).partition(":")
    if f"{module}:" == GAMES:
        module = name
    path = module.replace(".", "/")
    places = [folder / place for place in (module, f"{path}.py", f"{path}/__init__.py")]
    for file in places:
        if os.path.isfile(file):  # noqa: PTH113 (NUL)
            return file
    package = folder / path
    return package if os.path.isdir(package) and path else None  # noqa: PTH112 (NUL)
