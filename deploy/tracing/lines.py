"""The lines of a run's journal as those who show them read them: checked, and used as they are."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from artos.runs.run_config import RunConfig
from artos.specs.fields import Count
from head.records.shape import Shape

_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Claims = tuple[tuple[Count, ...], ...]


class ShownConfig(RunConfig, frozen=True):
    """What is needed of ``config.json`` to show a run."""

    plan: Shape | None = None


class _Line(msgspec.Struct, frozen=True):
    """A line, as far as it is used."""

    t: _Seconds = 0.0
    seconds: _Seconds = 0.0
    version: int = 0
    firing: Count = 0
    trigger: str = ""
    claims: _Claims = ()
    done: Count = 0
    by: str = ""
    stop: Count = 0
    times: dict[str, float] = {}
    waited: float = 0.0
    restored: float = 0.0
    lag_mean: float = 0.0
    lag_max: float = 0.0
    lags: tuple[tuple[float, ...], ...] = ()
    ready: str = ""
    start: str = ""
    died: str = ""
    set: dict[str, float] = {}


def checked(line: dict[str, Any]) -> dict[str, Any]:
    """The line itself.

    Raises:
        msgspec.ValidationError: what it says cannot be meant.
    """
    msgspec.convert(line, _Line)
    return line
