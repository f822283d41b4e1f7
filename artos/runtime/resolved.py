"""What a workload was built with: every setting, also those not given, and every package."""

from __future__ import annotations

import functools
import inspect
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from artos.runs.loader import (
    CHANGEABLE,
    EVERY,
    field_of,
    fit_settings,
    load_object,
    with_address,
)
from artos.specs.fields import check_plain
from artos.specs.reference import Reference
from artos.specs.workload import Workload
from artos.version import VERSION


def resolved_settings(reference: Reference, workload: Workload) -> dict[str, Any]:
    """Settings that build the same ``workload`` again, whatever the defaults are by then.

    They are the settings that were given, those that the builder decided, and the defaults of all
    others that are plain data; of an environment without a version the one that was taken.

    Raises:
        Refused: the workload cannot be imported.
    """
    found = load_object(reference.source, reference.folder)
    settings = with_address(found, reference.settings)
    if isinstance(found, Workload):
        defaults = {name: getattr(workload, field_of(name)) for name in CHANGEABLE}
        return {n: v for n, v in defaults.items() if _is_plain(v)} | settings
    actor = workload.actor
    if settings.get("env") == actor.asked != "":
        settings = settings | {"env": actor.env}
    given = fit_settings(found, settings, [])
    typed = {n: _json(v) for n, v in given.items() if _is_plain(v)}
    every = {name: getattr(workload, field_of(name)) for name in EVERY}
    defaults = {}
    for name, parameter in inspect.signature(found).parameters.items():
        value, faults = parameter.default, list[str]()
        if value is not parameter.empty and _is_plain(value):
            fit_settings(found, {name: _json(value)}, faults)
            if not faults:  # a default may be refused as a setting
                defaults[name] = _json(value)
    known = defaults | settings | every | typed
    decided = {n: _json(v) for n, v in workload.settings.items() if _is_plain(v)}
    return known | {n: v for n, v in decided.items() if n in known and known[n] is None}


def _is_plain(value: Any) -> bool:
    try:
        check_plain(_json(value))
    except ValueError:
        return False
    return True


def _json(value: Any) -> Any:
    """``value`` as it comes back from a file: lists for tuples, text for the keys of a table."""
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    return value


def versions() -> dict[str, str]:
    """Versions of ARTOS, Python, and each package that was imported so far under its own name."""
    names = {name.partition(".")[0] for name in tuple(sys.modules)} - sys.stdlib_module_names
    found = {name: number for name in sorted(names) if (number := _version(name))}
    return {"artos": VERSION, "python": platform.python_version(), **found}


@functools.cache
def _version(name: str) -> str:
    # Each look reads every folder on the import path, which grows with each user's folder.
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return ""  # the user's own file, or a package of another name
