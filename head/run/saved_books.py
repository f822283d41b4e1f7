"""The books of a run as bytes, and another run of the same workload that goes on with them.

Everything that a run holds is kept, so that a new field cannot be forgotten, but for

- what the run was given: its plan, its ports and the blocks behind them. In the bytes they are only
  named; where the run goes on they are those of its new process.
- what ``NOT_KEPT`` names, with the reason. These attributes stay as ``connect`` made them.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from artos.system.snapshot import NotKept
from head.run.concerns.configured import Configured
from head.run.concerns.evaluation import Evaluation
from head.run.concerns.leases import Leases
from head.run.concerns.prewarming import Prewarming
from head.run.concerns.recording import Recording
from head.run.concerns.recovery import Recovery
from head.run.concerns.scaling import Scaling
from head.run.concerns.standstill import Standstill
from head.run.coordination.beginning import go_on
from head.run.coordination.books import Claims
from head.run.coordination.coordinator import Coordinator
from head.run.monitor import Monitor
from head.run.run import Run
from triggers.base import Trigger
from triggers.engine import Engine
from triggers.primitives import TimeTrigger

_TIME = "a time, or how fast and how ready processes were: these are other ones now"
_SETTING = "follows from settings that the run may go on with others of"
_ENDED = "why the run ended before: now it goes on"
_ELSEWHERE = "saved elsewhere: in the checkpoint's manifest, or in the records of the run"
_LOGGED = "what was logged once, in the log of the other process"

NOT_KEPT: Mapping[type, Mapping[str, str]] = {
    Coordinator: {
        "ending": _ENDED, "roster": _TIME, "moved": _TIME, "vain": _TIME,
        "non_publishing": _SETTING, "members": _SETTING,
    },
    Run: {"idle": _TIME, "configuration": _ELSEWHERE},
    Configured: {"_table": _SETTING, "_keep": _ELSEWHERE, "_kept": _ELSEWHERE},
    Claims: {"_uncounted": _SETTING, "_envs": _SETTING},
    Engine: {"_now": _TIME},
    Monitor: {"first_step": _TIME, "goes_on": _TIME, "finished": _ELSEWHERE},
    TimeTrigger: {"_last": _TIME},
    Evaluation: {
        "member": _SETTING, "_failures": _TIME, "best": _ELSEWHERE, "unsaved": _ELSEWHERE,
    },
    Leases: {"_seldom": _LOGGED},
    Prewarming: {
        "forecast": _TIME, "_began": _TIME, "_restores": _TIME, "_versions": _TIME,
        "_actors": _TIME,
    },
    Recording: {"_began": _TIME, "_spent": _TIME, "_summed": _TIME},
    Recovery: {
        "limits": _SETTING, "_failures": _TIME, "_due": _TIME, "_look_at": _TIME, "booked": _TIME,
    },
    Scaling: {"scaler": _ELSEWHERE, "_turned": _TIME, "_update_seconds": _TIME},
    Standstill: {"_seconds": _SETTING, "_told_of": _LOGGED, "_starved": _LOGGED},
}  # fmt: skip
"""Attributes by class that are not kept, each with the reason."""


def saved(run: Run, beside: Any = None) -> bytes:
    """What the run holds between two events, and a value ``beside`` it.

    Raises:
        NotKept: something in it cannot be pickled.
    """
    there, out = parts(run), io.BytesIO()
    held = {name: kept(part) for name, part in there.items()}
    try:
        _Pickler(out, _named(run, there)).dump((held, beside))
    except Exception as error:  # whatever triggers of users raise when they are pickled
        raise NotKept(f"the books of the run: {type(error).__name__}: {error}") from error
    return out.getvalue()


def resumed(run: Run, data: bytes) -> Any:
    """Go on where another run of this workload stopped; returns what was saved beside it.

    The run was just made by ``connect`` and has not begun. Invocations that were not answered are
    still to be carried out. It runs code, so only for files of a run that is resumed.

    Raises:
        NotKept: it was saved by other code.
    """
    there = parts(run)
    try:
        held, beside = _Unpickler(data, _named(run, there)).load()
    except Exception as error:  # whatever triggers of users raise when they are unpickled
        raise NotKept(f"{type(error).__name__}: {error}") from error
    if others := held.keys() ^ there.keys():
        raise NotKept(f"another workload, as to {', '.join(sorted(others))}")
    for name, part in there.items():
        # Triggers of users may set some later, so theirs are not compared.
        others = set() if isinstance(part, Trigger) else held[name].keys() ^ kept(part).keys()
        if others:
            raise NotKept(
                f"class {type(part).__name__} has other attributes: {', '.join(sorted(others))}"
            )
        vars(part).update(held[name])
    run.monitor.goes_on = True
    go_on(run)
    return beside


def kept(part: object) -> dict[str, Any]:
    """The attributes of a part that are kept."""
    left_out = _left_out(part)
    return {name: value for name, value in vars(part).items() if name not in left_out}


def _left_out(part: object) -> set[str]:
    declared = {name for kind in type(part).__mro__ for name in NOT_KEPT.get(kind, ())}
    if isinstance(part, Trigger):  # its arguments are those of the present table
        declared |= {field.name for field in dataclasses.fields(part) if field.init}  # type: ignore[arg-type]
    return declared


def parts(run: Run) -> dict[str, object]:
    """What is there in every run of a workload, and goes on as it is; all else is made again."""
    own = {"run": run, "claims": run.claims, "engine": run.engine, "monitor": run.monitor}
    concerns = {type(concern).__name__: concern for concern in run.concerns}
    triggers = {
        f"{wrapper.trigger_id} {place}": trigger
        for wrapper in run.engine.wrappers
        for place, trigger in enumerate(inside(wrapper.trigger))
    }
    return {**own, **concerns, **triggers}


def inside(trigger: Trigger) -> Iterator[Trigger]:
    """A trigger and all that it is made of, in order."""
    yield trigger
    for value in vars(trigger).values():
        if isinstance(value, Trigger):
            yield from inside(value)


def _named(run: Run, there: Mapping[str, object]) -> dict[str, object]:
    """What is only named in the bytes: parts, what the run was given, and what is not kept."""
    ports = {field.name: getattr(run.ports, field.name) for field in dataclasses.fields(run.ports)}
    blocks: dict[str, object] = {f"block {n}": block for n, block in run.ports.blocks.items()}
    for learner, regions in run.ports.beside.items():
        blocks |= {f"{learner}/{name}": region for name, region in regions.items()}
    own = {
        f"{name}.{attribute}": vars(part)[attribute]
        for name, part in there.items()
        for attribute in _left_out(part)
        if hasattr(vars(part).get(attribute), "__dict__")
    }
    given = {"plan": run.plan, "outline": run.outline, "ports": run.ports, **ports, **blocks}
    return {**there, **given, **own}


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, named: Mapping[str, object]) -> None:
        super().__init__(out)
        # An evaluated region that is None, or two ports that are one, need no name of their own.
        self._names = {id(value): name for name, value in named.items() if value is not None}

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, named: Mapping[str, object]) -> None:
        super().__init__(io.BytesIO(data))
        self._named = named

    def persistent_load(self, name: str) -> Any:
        return self._named[name]
