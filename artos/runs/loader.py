"""Finds the user's workload: imports the module or file, calls a builder with its settings."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import symtable
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from artos.errors import Refused
from artos.specs.address import address
from artos.specs.contracts import Actor
from artos.specs.elastic import NAMES
from artos.specs.named import ENV_ARGS, WHO_SEPARATES
from artos.specs.reference import Reference, package_of
from artos.specs.settings import Setting, convert, settings_of, shown
from artos.specs.workload import Workload
from artos.system.closest import closest
from artos.system.importing import until_a_run, users_module
from artos.system.logging_setup import keep_enabled

_OURS = ("head", "workers", "deploy", "evaluation")
_FLAGS = {"env": "--env", "actors": "--actors", "total_steps": "--total-steps"}
_ENV = "a Gymnasium id, or module:factory of your own"
"""The setting that holds arguments of the environment, text or plain data by name."""
_ELSEWHERE = ("seed", "deadline")
"""Arguments of a run that are not settings of its workload."""
_OF_CENTRAL = ("inference", "splits", "answer_batch", "answer_wait", "answer_device")
_NOT_CENTRAL = (
    "actors of this workload act by themselves; central inference is for algorithms such as ppo, "
    "impala, dqn or sac, and in a file of your own for an AskingActor"
)
_NOT_SEPARATE = (
    f"one policy plays all agents with this workload; {WHO_SEPARATES} have the setting, and in a "
    "file of your own an AgentsActor says who plays whom"
)
_COUNTS = ("envs", "steps")
"""Settings that are at least 1."""
EVERY = (
    "total_updates", "checkpoint", "evaluate_every", "evaluation_episodes", "device", "weight",
    "priority", "learners",
)  # fmt: skip
"""Settings that every workload has, whether or not its function takes them."""
_FIELDS = {"learners": "replicas"}
"""Settings that are called otherwise than the field of a workload that they set."""
UNLIMITED = "total_steps must be at least 1, not 0 (0 is no limit: then give total_updates)"
CHANGEABLE = ("actors", "total_steps", *EVERY, "steps", "capacity", "on_full")
"""What a run may change about a workload that is given as an object."""


def field_of(setting: str) -> str:
    """The field of a workload that a setting of it sets."""
    return _FIELDS.get(setting, setting)


def load_object(source: str, folder: str = "") -> Any:
    """Import ``module:object`` or ``file.py:object``.

    Raises:
        Refused: no such file, module or object, or its import raised.
    """
    place, _, name = source.rpartition(":")
    if not place or not (name or place.endswith(".py")):
        raise Refused([f"{source!r} is not a workload: write ALGORITHM or FILE.py:OBJECT"])
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place, folder)
    if not name:
        raise Refused([_which(Path(place).name, module)])
    try:
        return getattr(module, name)
    except AttributeError:
        known = [n for n in vars(module) if not n.startswith("_")]
        why = _NOT_REACHED if _stands_in(module, name) else closest(name, known)
        raise Refused([f"{place} has no object {name!r}{why}"]) from None


_NOT_REACHED = (
    " once it is imported, though its file makes one: if that is below "
    '`if __name__ == "__main__":`, or below a call that starts a run, move it above'
)


def _stands_in(module: Any, name: str) -> bool:
    """Whether the module's file binds the name at all, outside functions and classes."""
    with suppress(OSError, TypeError, SyntaxError, KeyError):
        names = symtable.symtable(inspect.getsource(module), name, "exec")
        return names.lookup(name).is_assigned()
    return False


def _which(file: str, module: Any) -> str:
    """A request to choose one of the workloads of a file."""
    found = [f"{file}:{name}" for name, value in vars(module).items() if _is_workload(value)]
    if not found:
        return f"{file} has no Workload, and no function that is declared to return one"
    return f"say which object of the file to run: {' or '.join(found)}"


def _is_workload(value: Any) -> bool:
    returns = getattr(value, "__annotations__", {}).get("return")
    return isinstance(value, Workload) or returns in (Workload, Workload.__name__)


def _import_module(name: str, folder: str) -> Any:
    try:
        if name.partition(".")[0] == "triggers":  # ours, whatever the user's folder holds
            importlib.import_module(name)
        with user_imports(folder):
            return users_module(name)
    except Exception as error:
        raise Refused([f"cannot import {name}: {last_lines(error)}"]) from error


def _import_file(path: Path) -> Any:
    path = path.resolve()
    if not path.is_file():
        near = closest(path.name, [p.name for p in path.parent.glob("*.py")])
        raise Refused([f"there is no file {path}{near}"])
    package, root = package_of(path)
    # Within its package, so that relative imports find the files beside it.
    name = f"{package}.artos_user_{path.stem}" if package else f"artos_user_{path.stem}"
    if package and str(root) not in sys.path:
        sys.path.append(str(root))
    if name in sys.modules and getattr(sys.modules[name], "__file__", "") == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused([f"{path} is not a Python file"])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with user_imports(str(path.parent)), until_a_run():
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]  # also if the user has interrupted it: it is but half there
        if isinstance(error, Exception):
            raise Refused([f"{path} cannot be imported: {last_lines(error)}"]) from error
        raise
    return module


@contextmanager
def user_imports(folder: str) -> Iterator[None]:
    """Put the user's folder first on the import path (for good) while user code is imported.

    Our daemon packages are hidden if the folder has something of the same name, so the user's own
    imports find, for example, a ``workers.py`` of the user's.
    """
    # Ours is imported first, or a ``triggers.py`` of the user's would take its place.
    importlib.import_module("triggers")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    names = {name for name in _OURS if folder and _is_users(Path(folder), name)}
    hidden = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in names}
    for name in hidden:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(hidden)
        keep_enabled()


def _is_users(folder: Path, name: str) -> bool:
    ours = Path(__file__).resolve().parents[2]
    there = (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
    return there and folder.resolve() != ours


def built_in() -> dict[str, str]:
    """Algorithms known by name, and where their workloads are."""
    found: dict[str, str] = importlib.import_module("triggers.algorithms").BUILT_IN
    return found


def load_workload(reference: Reference) -> Workload:
    """The workload object: given as it is, or built by a function from the settings.

    Raises:
        Refused: it cannot be imported, is no workload, or the settings do not fit; all faults.
    """
    faults: list[str] = []
    workload = build_workload(reference, faults)
    if workload is None or faults:
        raise Refused(faults)
    return workload


def build_workload(reference: Reference, faults: list[str]) -> Workload | None:
    """The workload, built with those settings that fit; what does not fit is added to ``faults``.

    None if even so no workload can be built. Its actor is told what its triggers want of it, so
    every process has the same one.
    """
    try:
        found = load_object(reference.source, reference.folder)
        settings = with_address(found, reference.settings)
        if isinstance(found, Workload):
            # The user's module stays imported: what is set here is of this run alone.
            mine = replace(found, actor=copy(found.actor))
            return _told(_override(mine, settings, faults))
        builder = _builder(reference.source, found)
        known = inspect.signature(builder).parameters
        ours = {n: v for n, v in settings.items() if n in EVERY and n not in known}
        own = {n: v for n, v in settings.items() if n not in ours}
        if own.get("total_steps") == 0 and not {*settings, *known} & {*EVERY}:
            faults.append(UNLIMITED)  # told beside whatever keeps the function from building it
        given = _defaults(builder) | fit_settings(builder, own, faults)
        built = _call(reference.source, found, given)
        return _told(_override(built, ours, faults))
    except Refused as refused:
        faults += [fault for fault in refused.faults if fault not in faults]
        return None


def with_address(found: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which the arguments of the environment, if there are any, stand in ``env``.

    ``found`` is what the user named: it says which environment, where the settings do not.

    Raises:
        Refused: it does not say, or the arguments are no plain data by name.
    """
    others = {name: value for name, value in settings.items() if name != ENV_ARGS}
    if not (given := settings.get(ENV_ARGS)):
        return others
    default: Any
    if isinstance(found, Workload):
        default = found.actor.env if isinstance(found.actor, Actor) else None
    else:
        takes = inspect.signature(found).parameters.get("env") if callable(found) else None
        default = takes and takes.default
    env = others.get("env", default)
    if not (isinstance(env, str) and isinstance(given, dict)):
        raise Refused(
            ["--env-arg: this workload says itself which environment it makes, and with what: "
             "RolloutActor(..., env_args={...})"]
        )  # fmt: skip
    read = {name: convert(name, value, Any) for name, value in given.items()}
    return others | {"env": address(env, read)}


def _builder(source: str, found: Any) -> Callable[..., Any]:
    if not callable(found):
        raise Refused([f"{source} is a {type(found).__name__}, not a Workload or a function"])
    builder: Callable[..., Any] = found
    return builder


def _defaults(builder: Callable[..., Any]) -> dict[str, float]:
    """Whole numbers that are defaults of what is a ``float``, as one.

    So a run that goes on, or is replayed, is of the same workload: it is given all settings.
    """
    parameters, hints = inspect.signature(builder).parameters, get_type_hints(builder)
    return {
        name: float(each.default)
        for name, each in parameters.items()
        if hints.get(name) is float and type(each.default) is int
    }


def _call(source: str, builder: Callable[..., Any], settings: Mapping[str, Any]) -> Workload:
    try:
        built = builder(**settings)
    except Refused:
        raise
    except Exception as error:
        raise Refused([f"{source} raised: {last_lines(error)}"]) from error
    if not isinstance(built, Workload):
        raise Refused([f"{source} returned a {type(built).__name__}, not a Workload"])
    return built


def _told(workload: Workload) -> Workload:
    """What triggers want of rows: final observations, and how old episodes are."""
    triggers = [*workload.triggers.values()]
    if isinstance(workload.actor, Actor):
        if any(getattr(trigger, "successors", False) for trigger in triggers):
            workload.actor.final_observations = True
        if any(getattr(trigger, "hands_over_episodes", False) for trigger in triggers):
            workload.actor.stores_ages = True
    return workload


def fit_settings(
    builder: Callable[..., Any], settings: Mapping[str, Any], faults: list[str]
) -> dict[str, Any]:
    """Those settings that a builder's signature takes, text converted to the annotated types.

    Unknown names (with the closest) and values of the wrong type are added to ``faults``.
    """
    parameters, hints = inspect.signature(builder).parameters, get_type_hints(builder)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    # No algorithm of ours has data to learn from without actors, as a user's may have.
    ours = builder.__module__.startswith("triggers.")
    counted = (*_COUNTS, "actors") if ours else _COUNTS
    fitted: dict[str, Any] = {}
    for name, value in settings.items():
        if name in parameters or open_ended:
            _fit(fitted, name, value, hints.get(name, Any), faults, counted)
        else:
            faults.append(_unknown(name, list(parameters)))
    return fitted


def _fit(
    fitted: dict[str, Any],
    name: str,
    value: Any,
    kind: Any,
    faults: list[str],
    counted: Collection[str] = _COUNTS,
) -> None:
    try:
        converted = convert(name, value, kind)
    except Refused as refused:
        faults += refused.faults
        return
    if name in counted and isinstance(converted, int) and converted < 1:
        faults.append(f"{name} must be at least 1, not {converted}")
        return
    fitted[name] = converted


def _override(workload: Workload, settings: Mapping[str, Any], faults: list[str]) -> Workload:
    """A workload given as an object, with the changes that a run may make to it."""
    hints = {name: get_type_hints(Workload)[field_of(name)] for name in CHANGEABLE}
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        if name in hints:
            _fit(changes, name, value, hints[name], faults)
        elif name == "env" and isinstance(workload.actor, Actor) and workload.actor.env:
            workload.actor.env = value
        else:
            faults.append(_unknown(name, CHANGEABLE))
    return replace(workload, **{field_of(name): value for name, value in changes.items()})


def _unknown(name: str, known: Sequence[str]) -> str:
    if name in _FLAGS:
        return f"this workload sets {name} itself: leave out {_FLAGS[name]}"
    if name in _ELSEWHERE:
        return f"unknown setting {name!r}: write --{name}"
    if name in _OF_CENTRAL:
        return f"unknown setting {name!r}: {_NOT_CENTRAL}"
    if name == "agents":
        return f"unknown setting {name!r}: {_NOT_SEPARATE}"
    near = closest(name, [*known, *EVERY, *sorted(NAMES)])
    return f"unknown setting {name!r}{near} (`artos explain WORKLOAD` lists all)"


def settings_of_workload(reference: Reference) -> tuple[Setting, ...]:
    """What ``--set`` takes for this workload.

    Raises:
        Refused: it cannot be imported.
    """
    found = load_object(reference.source, reference.folder)
    there = {each.name: each for each in settings_of(Workload)}
    ours = {n: msgspec.structs.replace(there[field_of(n)], name=n) for n in CHANGEABLE}
    if isinstance(found, Workload):
        values = {name: shown(getattr(found, field_of(name))) for name in ours}
        return tuple(msgspec.structs.replace(ours[n], default=values[n]) for n in ours)
    lines = {name: each.does for name, each in ours.items()} | {"env": _ENV}
    own = settings_of(_builder(reference.source, found))
    every = [ours[name] for name in EVERY if name not in {each.name for each in own}]
    return tuple(
        msgspec.structs.replace(each, does=each.does or lines.get(each.name, ""))
        for each in (*own, *every)
    )


def last_lines(error: BaseException, count: int = 6) -> str:
    """The end of a traceback, enough to find the line at fault."""
    text = "".join(traceback.format_exception(error)).strip().splitlines()
    return "\n    ".join([f"{type(error).__name__}: {error}", *text[-count:]])
