"""A report of a run: one HTML file with everything in it, and nothing in it that is executed."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from artos.protocol.usage import Usage, flat
from artos.system.printable import printable
from artos.system.regular_file import contents
from deploy.figures.questions import answers
from deploy.figures.read_run import ReadRun, Say, by_run

_TEMPLATE = Path(__file__).with_name("report.html")
_MEDIA = {"svg": "image/svg+xml", "png": "image/png"}
Row = tuple[str, str]


def report(folder: Path, say: Say) -> str:
    """The report of the run in ``folder``, live, over or killed, as a page of HTML.

    ``say`` is told, as readers of the page are, of what is damaged, so that it is left out.

    Raises:
        Refused: there is no run, or its records are damaged.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    run = ReadRun(folder)
    usage, why = run.summary.get("usage"), run.ending.why
    said = f"{run.asked.algorithm} on {run.asked.env}, seed {run.asked.seed}: {run.outcome}"
    tables = {
        "Outcome": [*_outcome(run)],
        "Bill": [*_rows(flat(Usage.of(usage)) if usage else run.last.usage)],
        "Settings": [*_rows(run.asked.settings)],
        "Changed while it went": [*_rows(dict(run.last.settings))],
        "Environment": [*_recorded(run, "env_spec")],
        "Where it comes from": [*_recorded(run, "origin")],
        "Machine": [*_recorded(run, "host")],
        "Versions": [*_rows(run.asked.versions)],
    }
    left_out = list[str]()
    found = answers(by_run([run]), left_out.append)
    for each in left_out:
        say(each)
    figures = (
        {"title": answer.question, "caption": answer.caption, "kind": _MEDIA[answer.best],
         "data": base64.b64encode(answer.files(answer.best)[answer.best]).decode()}
        for answer in found
    )  # fmt: skip
    page = Environment(autoescape=True, undefined=StrictUndefined)
    return page.from_string(contents(_TEMPLATE).decode()).render(
        name=printable(run.name), said=printable(f"{said}. {why}" if why else said),
        figures=[*figures], left_out=[*map(printable, left_out)],
        tables={title: rows for title, rows in tables.items() if rows},
    )  # fmt: skip


def _outcome(run: ReadRun) -> Iterator[Row]:
    last, ending = run.last, run.ending
    facts: dict[str, Any] = {
        "outcome": run.outcome,
        "ended by": ending.ended_by,
        "environment steps": f"{last.steps:,}",
        "updates": f"{last.updates:,}",
        "episodes": f"{last.episodes:,}",
        "seconds of training": f"{last.seconds:,.1f}",
        "steps a second": f"{last.steps_per_second:,.0f}",
        "mean return of the last 100 episodes": last.mean_return_100,
        "best evaluation": ending.best and ending.best.mean_return,
        "policy lag, mean and max": None if last.lag_mean is None
        else f"{last.lag_mean:.3g}, {last.lag_max}",
        "restarts of members": last.restarts,
        "rows lost": last.rows_lost,
        "seconds by kind": last.times,
    }  # fmt: skip
    yield from _rows(facts)


def _recorded(run: ReadRun, name: str) -> Iterator[Row]:
    """What ``config.json`` has of that name, whatever it is: no program reads it."""
    found = run.config.get(name)
    yield from _rows(found if isinstance(found, Mapping) else {name: found})


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
