"""A journal as spans: versions, the triggers that fired under them, what these caused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import pytest

from deploy.tracing import otlp
from deploy.tracing.spans import Span, Spans
from head.records.run_folder import RunFolder
from head.run.request import Request

BEGAN = 1_700_000_000.0
IN_TURN: tuple[dict[str, Any], ...] = (
    {"t": 0.0, "began": BEGAN},
    {"t": 0.5, "ready": "actor 0", "start": "clone", "seconds": 0.1},
    {"t": 0.6, "firing": 1, "trigger": "actors.sample", "version": 0, "after": "learner"},
    {"t": 0.8, "firing": 2, "trigger": "learner.update", "version": 0, "claims": [[0, 0, 4]]},
    {"t": 0.81, "done": 1, "by": "actor 0", "version": 0, "seconds": 0.15, "stop": 4},
    {"t": 0.9, "firing": 3, "trigger": "actors.sample", "version": 1},
    {
        "t": 0.91, "done": 2, "by": "learner", "version": 1, "lags": [[0, 0.0, 0]],
        "seconds": 0.1, "times": {"gather": 0.02, "learn": 0.07, "wait": 0.3},
    },
    {"t": 0.99, "done": 3, "by": "actor 0", "version": 1, "seconds": 0.05, "stop": 8},
    {"t": 1.0, "died": "actor 0", "step": 4, "why": "killed"},
)  # fmt: skip


UPDATE: dict[str, Any] = {"t": 0.5, "firing": 9, "trigger": "learner.update", "version": 0}


def spans(*lines: dict[str, Any]) -> list[Span]:
    made = Spans("run")
    return [*made.of(lines), *made.rest()]


def named(found: list[Span]) -> dict[str, Span]:
    """By name and version; of several, the last one."""
    return {f"{span.name} {span.facts.get('version', '')}".strip(): span for span in found}


def test_what_fires_under_a_version_is_below_it_and_causes_what_is_done() -> None:
    found = named(spans(*IN_TURN))
    version, trigger, update = (
        found[name] for name in ("version 0", "trigger learner.update 0", "learner.update 1")
    )
    assert (version.parent, trigger.parent, update.parent) == (None, version.id, trigger.id)
    assert {version.id.trace} == {trigger.id.trace, update.id.trace}
    assert [found[part].parent for part in ("gather", "learn")] == [update.id] * 2
    assert [version.kind, trigger.kind, update.kind] == ["internal", "producer", "consumer"]
    assert trigger.facts == {"firing": 2, "version": 0, "rows": 4}
    assert (update.role, update.member) == ("learner", "learner")


def test_a_firing_is_linked_to_the_rounds_of_its_rows_though_these_answer_later() -> None:
    found = named(spans(*IN_TURN))
    assert found["trigger learner.update 0"].links == (found["actors.sample 0"].id,)


def test_a_version_is_linked_to_the_update_that_made_it_in_an_earlier_trace() -> None:
    found = named(spans(*IN_TURN))
    made, update = found["version 1"], found["learner.update 1"]
    assert made.links == (update.id,)
    assert made.id.trace != update.id.trace
    assert made.begin == pytest.approx(BEGAN + 0.9)  # seen in memory before the learner said so
    assert made.end == pytest.approx(BEGAN + 1.0)


def test_times_are_those_of_the_clock_on_the_wall() -> None:
    found = named(spans(*IN_TURN))
    sample, gather = found["actors.sample 0"], found["gather"]
    assert (sample.begin, sample.end) == pytest.approx((BEGAN + 0.66, BEGAN + 0.81))
    assert (gather.begin, gather.end) == pytest.approx((BEGAN + 0.81, BEGAN + 0.83))
    assert sample.after == pytest.approx(0.81)


def test_a_death_has_failed() -> None:
    assert named(spans(*IN_TURN))["died"].failed == "killed"


def test_rows_of_parts_of_rounds_are_linked_to_each_of_them() -> None:
    rounds = [
        {"t": 1.0 + n / 10, "done": n, "by": "actor 3", "version": 0, "stop": 4 * n}
        for n in range(1, 6)
    ]
    found = spans(*rounds, UPDATE | {"t": 2.0, "claims": [[3, 6, 13]]})
    sampled = {span.facts["stop"]: span.id for span in found if "stop" in span.facts}
    links = next(span.links for span in found if span.name.startswith("trigger"))
    assert {*links} == {sampled[stop] for stop in (8, 12, 16)}


def test_rows_whose_round_never_answers_keep_nothing_back() -> None:
    (trigger,) = (
        span for span in spans(UPDATE | {"claims": [[0, 0, 4]]}) if span.name.startswith("trigger")
    )
    assert trigger.links == ()


def test_a_version_of_replicas_is_linked_to_all_and_one_of_two_learners_to_none() -> None:
    def made(*by: str) -> int:
        fired = [
            {"t": n, "firing": n, "trigger": f"{who}.update", "version": 0}
            for n, who in enumerate(by, 1)
        ]
        done = [
            {"t": 5.0, "done": n, "by": who, "version": 1, "lags": []}
            for n, who in enumerate(by, 1)
        ]
        last = {"t": 6.0, "firing": 9, "trigger": "actors.sample", "version": 1}
        return len(named(spans(*fired, *done, last))["version 1"].links)

    assert (made("learner"), made("learner", "model"), made("learner", "learner 1")) == (1, 0, 2)


def test_a_resumed_run_goes_on_with_other_numbers() -> None:
    again = ({"t": 0.0, "began": BEGAN + 60}, *IN_TURN[1:])
    found = spans(*IN_TURN, *again)
    assert len({span.id for span in found}) == len(found)
    assert len({span.id.span for span in found}) == len(found)
    resumed = named(found)["actors.sample 0"]
    assert resumed.end == pytest.approx(BEGAN + 60.81)
    assert resumed.after == pytest.approx(1.81)


def test_so_does_one_of_a_journal_that_does_not_say_when_it_began() -> None:
    made = Spans("run", [BEGAN, BEGAN + 60])
    late = {"t": 9.0, "done": 3, "by": "actor 0", "version": 1, "stop": 12}
    found = [*made.of([*IN_TURN[1:], late, *IN_TURN[1:]]), *made.rest()]
    assert named(found)["actors.sample 0"].end == pytest.approx(BEGAN + 60.81)


def test_a_run_that_is_sent_twice_is_there_once() -> None:
    assert spans(*IN_TURN) == spans(*IN_TURN)


def test_a_span_is_written_once_whatever_comes_in_pieces() -> None:
    made, found = Spans("run"), list[Span]()
    for line in IN_TURN:
        found += made.of([line])
    assert [*found, *made.rest()] == spans(*IN_TURN)


class Gathered:
    """Takes spans in place of a collector."""

    endpoint = "here"
    sent: ClassVar[list[Span]] = []

    def __init__(self, run: str) -> None:
        self.sent.clear()

    def __enter__(self) -> Gathered:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, spans: Sequence[Span]) -> None:
        self.sent.extend(spans)


def test_damaged_lines_are_left_out_and_what_comes_later_is_sent_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "Collector", Gathered)
    RunFolder.create(tmp_path / "r", Request("ppo").config()).close()
    journal = tmp_path / "r" / "journal.jsonl"
    lines = [json.dumps(line) + "\n" for line in IN_TURN]
    journal.write_text("".join(lines))
    whole = otlp.send(tmp_path / "r", 0.0, inf)
    told = [*Gathered.sent]
    assert (whole.damaged, whole.spans) == (0, len(told))
    journal.write_text("".join([*lines[:3], "{\n", lines[3][:9]]))

    def wait() -> None:
        journal.write_text("".join([*lines[:3], "{\n", *lines[3:], '{"t": -1}\n']))
        monkeypatch.setattr(otlp, "goes_on", lambda folder: False)

    monkeypatch.setattr(otlp, "goes_on", lambda folder: True)
    assert otlp.send(tmp_path / "r", 0.0, inf, wait).damaged == 2
    assert Gathered.sent == told
