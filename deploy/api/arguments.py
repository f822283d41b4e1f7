"""Arguments of ``artos.run`` and its like: checked before anything starts, then typed as words."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import msgspec

from artos.errors import Refused
from artos.specs.address import named
from artos.specs.named import ENV
from artos.specs.settings import shown
from deploy.api.naming import name_of

_Fits = Callable[[Any], bool]
_Kinds = Mapping[str, tuple[_Fits, str]]


def asked(
    workload: Any, names: Mapping[str, Any], ours: Mapping[str, Any], settings: Mapping[str, Any]
) -> str:
    """The name of a workload, see ``name_of``, asked for with ``ours``, and settings of its own.

    Raises:
        Refused: something is wrong with it, or with any of them; all of it.
    """
    faults, name = [*faults_of(ours, _KINDS), *faults_of(settings)], ""
    try:
        name = name_of(workload, names)
    except Refused as refused:
        faults = [*refused.faults, *faults]
    if faults:
        raise Refused(faults)
    return name


def faults_of(given: Mapping[str, Any], kinds: _Kinds | None = None) -> list[str]:
    """What is wrong with arguments of these ``kinds``, or with settings.

    Which settings a workload has, and of what kind, it says.
    """
    faults, kinds = list[str](), _OF_SETTINGS if kinds is None else kinds
    for name, value in given.items():
        fits, what = kinds.get(name, _ANY)
        if value is None and not (name in kinds and name in _NEEDED):
            continue
        if not fits(value):
            faults.append(f"{name}: give {what}, not {value!r}")
            continue
        try:
            if name == ENV:
                named(value)
            here = name in kinds and name in _HERE
            if not here and 0 in typed(name, value).encode(errors=_ERRORS.get(name, "strict")):
                faults.append(f"{name}: {value!r} has a NUL, which no process can be given")
        except Refused as refused:
            faults += refused.faults
        except UnicodeEncodeError:
            faults.append(f"{name}: {value!r} has half a character, which no process can be given")
    return faults


def words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of ``artos run``; raises what ``typed`` raises."""
    found = list[str]()
    for name, value in settings.items():
        match name:
            case "env" | "total_steps" | "env_args" | "track" | "deadline" if value is None:
                continue
            case "env_args":
                pairs = {key: _json(name, each) for key, each in value.items()}
                found += [word for key in pairs for word in ("--env-arg", f"{key}={pairs[key]}")]
            case "track":
                trackers = [value] if isinstance(value, str) else value
                found += [word for each in trackers for word in ("--track", each)]
            case "deadline":
                found += ["--deadline", str(value)]
            case _:
                found += ["--set", f"{name}={typed(name, value)}"]
    return found


def typed(name: str, value: Any) -> str:
    """A setting's value as it is typed on the command line.

    Raises:
        Refused: something in a dictionary is no plain data.
    """
    return _json(name, value) if isinstance(value, Mapping) else shown(value)


def _json(name: str, value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(
            [f"{name}: {value!r}: only plain data is given to the run's process"]
        ) from error


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_texts(value: Any) -> bool:
    """Whether it is several texts, and not the letters of one."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return several and all(isinstance(each, str) for each in value)


def _has_names(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_HERE = ("grid", "cluster", "say", "on_progress")
"""Arguments that are of this process alone."""
_NEEDED = ("seed", "seeds", "at_once", "folder", "inline", "say", "where")
"""Arguments that are not left out by giving None."""
_ERRORS = dict.fromkeys(("run_dir", "folder", "packages"), "surrogateescape")
"""Paths may have any bytes."""
_ANY: tuple[_Fits, str] = (lambda value: True, "")
_KINDS: _Kinds = {
    "seed": (_is_whole, "a whole number"),
    "seeds": (_is_whole, "a whole number"),
    "at_once": (_is_whole, "a whole number"),
    "run_dir": (_is_path, "the path of a folder"),
    "folder": (_is_path, "the path of a folder"),
    "packages": (_is_path, "the path of a file"),
    "inline": (lambda value: isinstance(value, bool), "True or False"),
    "on_progress": (callable, "a function that takes a Status"),
    "say": (callable, "a function that takes a text"),
    "cluster": (lambda value: hasattr(value, "submit"), "an artos.Cluster"),
    "grid": (_has_names, "lists of values by the names of settings, {'NAME': [VALUE, ...]}"),
    "env_args": (_has_names, "arguments by name, {'NAME': VALUE}"),
    "track": (
        lambda value: isinstance(value, str) or _is_texts(value),
        "the name of a tracker, or a list of names",
    ),
    "deadline": (
        lambda value: isinstance(value, Real) and float(value) > 0,
        "seconds, more than 0",
    ),
    "where": (_is_texts, "a list of labels"),
}
"""Whether an argument fits, and what is to be given."""
_OF_SETTINGS: _Kinds = {name: _KINDS[name] for name in ("env_args", "track", "deadline")}
"""Those that are given among settings; all others are the workload's to judge."""
