"""Objects of modules that a run's settings name: its environment, and wrappers around that.

Whoever names one has it imported and called. So names are read here just as environments are made
from them, or as more than is made, never as less.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.specs.address import parted
from artos.specs.settings import convert

ENV, ENV_ARGS = "env", "env_args"
"""The settings with an environment's address, and with arguments of it."""
WRAPPERS = "wrappers"
"""That argument of an environment which names wrappers."""
WHO_SEPARATES = "all algorithms of ARTOS but apex, es and grpo"
"""Those that have the setting ``agents``: a policy for each agent of a game."""
VECTOR, GAMES = "vector:", "pettingzoo:"
"""What stands before an address of the environment's own vector form, and of a game."""


def objects_named(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Each ``module:object`` that the environment of these settings is made by, without arguments.

    A server's address is one, too.
    """
    name, arguments = _read(settings)
    whole = [name] if ":" in name.removeprefix(VECTOR) or "\\" in name else []
    inside = [*_texts(arguments[WRAPPERS])] if WRAPPERS in arguments else []
    named = [text for text in inside if ":" in text] or [str(inside)] * (WRAPPERS in arguments)
    return tuple(dict.fromkeys(whole + named))


def names_of_folder(settings: Mapping[str, Any], folder: Path) -> bool:
    """Whether the environment needs something in ``folder``: a module, or a file as an argument."""
    texts = _texts(_read(settings)[1])
    files = (text for text in texts if text and not Path(text).is_absolute())
    return any(file_of(named, folder) for named in objects_named(settings)) or any(
        os.path.exists(folder / file)  # noqa: PTH110 (NUL)
        for file in files
    )


def file_of(named: str, folder: Path) -> Path | None:
    """The file, or the folder of a package, in ``folder`` that an object is imported from."""
    module, _, name = named.removeprefix(VECTOR).partition(":")
    if f"{module}:" == GAMES:
        module = name
    path = module.replace(".", "/")
    inside = (f"{path}{end}{suffix}" for end in ("", "/__init__") for suffix in all_suffixes())
    for place in (*([module] if module.endswith(".py") else []), *inside):
        if os.path.isfile(file := folder / place):  # noqa: PTH113 (NUL)
            return file
    package = folder / path
    return package if path and os.path.isdir(package) else None  # noqa: PTH112 (NUL)


def _read(settings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The name of the environment, and all of its arguments."""
    text = str(settings.get(ENV, "")).strip()
    try:
        name, arguments = parted(text)
    except Refused:  # no environment is made from it
        name, arguments = text, {}
    given = settings.get(ENV_ARGS)
    more = {k: convert(k, v, Any) for k, v in given.items()} if isinstance(given, Mapping) else {}
    return name, arguments | more


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.items():
            yield from _texts(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _texts(one)
