"""A report of a run: one HTML file with everything in it, and nothing in it that is executed."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import Refused
from artos.protocol.usage import Usage, flat
from artos.system.printable import printable
from artos.system.regular_file import contents
from deploy.figures import timeline
from deploy.figures.drawing import drawn
from deploy.figures.questions import answers
from deploy.figures.read_run import Group, ReadRun
from deploy.tracing.file import events_of

_TEMPLATE = Path(__file__).with_name("report.html")
_LINES = 100_000
"""Of a journal that is longer, the timeline shows the last ones."""
_TOO_LONG = "The run was longer: these are its last seconds. "
Row = tuple[str, str]


@dataclass(frozen=True)
class _Picture:
    title: str
    caption: str
    kind: str
    data: str

    @classmethod
    def of(cls, title: str, caption: str, kind: str, data: bytes) -> _Picture:
        return cls(title, caption, kind, base64.b64encode(data).decode())


def report(folder: Path) -> str:
    """The report of the run in ``folder``, live, over or killed, as a page of HTML.

    Raises:
        Refused: there is no run, or its records are damaged.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    run = ReadRun(folder)
    usage, why = run.summary.get("usage"), str(run.summary.get("why", ""))
    said = f"{run.asked.algorithm} on {run.asked.env}, seed {run.asked.seed}: {run.outcome}"
    tables = {
        "Outcome": [*_outcome(run)],
        "Bill": [*_rows(flat(Usage.of(usage)) if usage else run.last.usage)],
        "Settings": [*_rows(run.asked.settings)],
        "Changed while it went": [*_rows(dict(run.last.settings))],
        "Environment": [*_rows(run.config.get("env_spec") or {})],
        "Where it comes from": [*_rows(run.config.get("origin") or {})],
        "Machine": [*_rows(run.config.get("host") or {})],
        "Versions": [*_rows(run.asked.versions)],
    }
    page = Environment(autoescape=True, undefined=StrictUndefined)
    return page.from_string(contents(_TEMPLATE).decode()).render(
        name=printable(run.name), said=printable(f"{said}. {why}" if why else said),
        figures=[*_figures(run)],
        tables={title: rows for title, rows in tables.items() if rows},
    )  # fmt: skip


def _figures(run: ReadRun) -> Iterator[_Picture]:
    for answer in answers([Group(run.name, (run,))]):
        data = answer.files("svg")["svg"]
        yield _Picture.of(answer.question, answer.caption, "image/svg+xml", data)
    try:
        told = timeline.timeline(events_of(run.folder, -_LINES))
    except Refused:  # a journal that is damaged or missing takes nothing from the rest
        return
    if told.rows:
        height = 1.2 + 0.22 * len(told.rows)
        data = drawn(lambda axes: timeline.draw(axes, told), ("png",), (8.0, height))["png"]
        caption = (
            "What each member did when; it waited where it is grey. Slices that are too short to "
            f"be seen are joined. {_TOO_LONG if told.begin > 1.0 else ''}"
            + (f"{told.left_out} more members are left out." if told.left_out else "")
        )
        yield _Picture.of("Who did what when?", caption.strip(), "image/png", data)


def _outcome(run: ReadRun) -> Iterator[Row]:
    last, ended = run.last, run.summary
    facts: dict[str, Any] = {
        "outcome": run.outcome,
        "ended by": ended.get("ended_by"),
        "environment steps": f"{last.steps:,}",
        "updates": f"{last.updates:,}",
        "episodes": f"{last.episodes:,}",
        "seconds of training": f"{last.seconds:,.1f}",
        "steps a second": f"{last.steps_per_second:,.0f}",
        "mean return of the last 100 episodes": last.mean_return_100,
        "best evaluation": (ended.get("best") or {}).get("mean_return"),
        "policy lag, mean and max": None if last.lag_mean is None
        else f"{last.lag_mean:.3g}, {last.lag_max}",
        "restarts of members": last.restarts,
        "rows lost": last.rows_lost,
        "seconds by kind": last.times,
    }  # fmt: skip
    yield from _rows(facts)


def _rows(values: Mapping[str, Any]) -> Iterator[Row]:
    """Names and values as text, one level deep, what is unknown left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {key}", text) for key, text in _rows(value))
        elif value is not None and value != "":
            yield printable(str(name)), printable(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    return msgspec.json.encode(value).decode()
