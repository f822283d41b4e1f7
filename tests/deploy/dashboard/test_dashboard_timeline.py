"""A part of a run's time: what is shown of it is what the whole journal tells of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artos.errors import Refused
from artos.protocol.invocations import Claim, Ready
from artos.protocol.views import Status
from deploy.dashboard import lags, rare
from deploy.dashboard import timeline as timeline_module
from deploy.dashboard.lags import Lags, of_journal, of_progress, of_summary
from deploy.dashboard.paths import Step, path_of_row, path_of_version
from deploy.dashboard.rare import RareLines
from deploy.dashboard.timeline import Mark, Span, _column, rows_in_order, timeline
from head.records.shape import Shape
from triggers import journal_index
from triggers.events import Firing
from triggers.journal import Journal
from triggers.journal_index import JournalIndex

NAME = "journal.jsonl"
ACTORS, STEPS = 4, 128
SHAPE = Shape(ACTORS, 1, STEPS, {"learner.update": {}, "actors.sample": {}})


def no_lag(version: int) -> int:
    return 0


def played(
    path: Path, rounds: int, most: int = 10**9, slow: int = 2, lag: Callable[[int], int] = no_lag
) -> None:
    """A run in turn, of which one actor is slow: all wait for it, and it waits for the learner."""
    book, chance, now, firing = Journal(path, most=most), random.Random(1), 0.5, 0
    for member in ("learner", *(f"actor {rank}" for rank in range(ACTORS))):
        book.ready(now, member, Ready(9.0, start="fork"), 0.2)
    for version in range(rounds):
        sample = firing = firing + 1
        book.fired(now, Firing(number=sample, trigger="actors.sample", version=version))
        took = {rank: chance.uniform(0.02, 0.03) + 0.05 * (rank == slow) for rank in range(ACTORS)}
        for rank in sorted(took, key=lambda rank: took[rank]):
            done = {"version": version, "stop": STEPS * (version + 1)}
            book.done(now + took[rank], sample, f"actor {rank}", seconds=took[rank], **done)
        now, firing = now + max(took.values()) + 0.001, firing + 1
        claims = tuple(Claim(r, STEPS * version, STEPS * (version + 1)) for r in range(ACTORS))
        book.fired(now, Firing(claims, number=firing, trigger="learner.update", version=version))
        now += 0.01
        book.done(
            now, firing, "learner", seconds=0.01, times={"learn": 0.008}, version=version + 1,
            lag_mean=0.0, lag_max=0, lags=[[rank, *[lag(version)] * 2] for rank in range(ACTORS)],
        )  # fmt: skip
        if version % 20 == 0:
            book.flush()
    for _ in range(100):
        book.flush()
    book.close()


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"_GAP": 8_000, "_OWN_GAP": 4_000, "_PIECE": 2_000, "_NEAR": 500}.items():
        monkeypatch.setattr(journal_index, name, size)


def known(span: Span) -> tuple[Any, ...]:
    return (span.member, span.name, round(span.begin, 5), round(span.end, 5), str(span.facts))


@pytest.mark.usefixtures("looks_often")
def test_a_part_has_what_the_whole_has_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "_BEFORE", 4_000)
    monkeypatch.setattr(timeline_module, "_BEHIND", 4_000)
    played(tmp_path / NAME, 200, most=30_000)
    with JournalIndex(tmp_path / NAME) as index:
        whole = timeline(index, 0, inf)
        assert whole.exact
        assert len(whole.spans) > 200 * (2 * ACTORS + 3)
        chance = random.Random(4)
        for _ in range(30):
            since = chance.uniform(0.5, index.end)
            until = since + chance.uniform(0, 1)
            part = timeline(index, since, until)
            within = [s for s in whole.spans if s.end >= since and s.begin <= until]
            assert {known(s) for s in part.spans} == {known(s) for s in within}
            assert (part.begin, part.end) == (whole.begin, whole.end)
            inside = [a for a in whole.arrows if since <= a.begin[1] and a.end[1] <= until]
            assert len(part.arrows) >= len(inside) > 0 or until - since < 0.1


@pytest.mark.parametrize("sample", [3_000, 30_000], ids=["a part of each", "all of each"])
@pytest.mark.usefixtures("looks_often")
def test_samples_are_of_their_columns_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    """Also where the index only knows a place long before the time that is looked for."""
    played(tmp_path / NAME, 400)
    monkeypatch.setattr(journal_index, "_NEAR", 2_500)
    for name, value in {"_MOST_EXACT": 9, "_SAMPLE": 3_000, "_COLUMNS": 20}.items():
        monkeypatch.setattr(timeline_module, name, value)
    monkeypatch.setattr(timeline_module, "_WHOLE", sample)
    with JournalIndex(tmp_path / NAME) as index:
        found = timeline(index, 0, inf)
    for column in found.columns:
        middle, (since, until) = (column.begin + column.end) / 2, column.sampled
        assert since <= middle <= until
        assert column.shares.keys() == {"learner", *(f"actor {rank}" for rank in range(ACTORS))}
        if sample == 30_000 and column is not found.columns[-1]:
            assert column.sampled == (column.begin, column.end)


def test_who_was_waited_for_is_said(tmp_path: Path) -> None:
    played(tmp_path / NAME, 50, slow=2)
    with JournalIndex(tmp_path / NAME) as index:
        found = timeline(index, 1.0, 3.0)
    waits = [s for s in found.spans if s.kind == "wait"]
    waits = [s for s in waits if s.facts["for"] != "hand-over"]
    assert {s.facts.get("who") for s in waits if s.member == "learner"} == {"actor 2"}
    assert {s.facts.get("who") for s in waits if s.member != "learner"} == {"learner"}
    others = [s for s in waits if s.member == "actor 0"]
    assert all(s.end - s.begin == pytest.approx(0.06, abs=0.015) for s in others)


@pytest.mark.usefixtures("looks_often")
def test_of_a_long_time_samples_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(tmp_path / NAME, 2_000, most=200_000)
    for name, value in {"_MOST_EXACT": 50_000, "_SAMPLE": 8_000, "_COLUMNS": 20}.items():
        monkeypatch.setattr(timeline_module, name, value)
    with JournalIndex(tmp_path / NAME) as index:
        found = timeline(index, 0, inf)
        assert (found.exact, found.spans, len(found.columns)) == (False, [], 20)
        assert found.members == ["learner", *(f"actor {rank}" for rank in range(ACTORS))]
        for column in found.columns[1:]:
            assert column.begin <= column.sampled[0] < column.sampled[1] <= column.end
            slow, quick = column.shares["actor 2"], column.shares["actor 0"]
            assert slow["sample"] == pytest.approx(0.87, abs=0.03)
            assert quick["wait for version: learner"] == pytest.approx(0.71, abs=0.05)
            for shares in column.shares.values():
                assert sum(shares.values()) == pytest.approx(1.0, abs=0.02)
        assert found.columns[0].begin == index.begin
        assert found.columns[-1].end == pytest.approx(index.end)
        zoomed = timeline(index, index.end / 2, index.end / 2 + 1)
        assert zoomed.exact, "single rounds are seen of a part of it"


@pytest.mark.usefixtures("samples")
def test_replicas_have_shares_wherever_one_looks(tmp_path: Path) -> None:
    """Only the first lines of a journal name them."""
    played(tmp_path / NAME, 2_000)
    start = text_of({"t": 0.5, "ready": "learner 1", "start": "fork", "seconds": 0.2})
    (tmp_path / NAME).write_bytes(b"".join([*start, (tmp_path / NAME).read_bytes()]))
    with JournalIndex(tmp_path / NAME) as index:
        found = timeline(index, 0, inf)
        zoomed = timeline(index, index.end / 2, index.end / 2 + 1)
    assert not found.exact
    for column in found.columns[1:]:
        assert column.shares["learner 1"] == column.shares["learner"]
    updates = {m: [s.begin for s in zoomed.spans if s.member == m and s.name == "update"]
               for m in ("learner", "learner 1")}  # fmt: skip
    assert updates["learner"] == updates["learner 1"] != []


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not short is a long time."""
    for name, value in {"_MOST_EXACT": 50_000, "_SAMPLE": 8_000, "_COLUMNS": 20}.items():
        monkeypatch.setattr(timeline_module, name, value)


DIED = {"died": "actor 1", "step": 9, "why": "killed"}


def text_of(*lines: dict[str, Any]) -> list[bytes]:
    return [json.dumps(line).encode() + b"\n" for line in lines]


@pytest.mark.usefixtures("samples")
def test_what_is_rare_is_marked_in_a_long_time_too(tmp_path: Path) -> None:
    """As the run writes it: most of these lines have no time of their own."""
    played(tmp_path / NAME, 2_000)
    lines = (tmp_path / NAME).read_bytes().splitlines(keepends=True)
    at, end = (json.loads(lines[number])["t"] for number in (5_000, -1))
    moved = {"ready": "actor 9", "start": "moved", "from": "w1", "to": "w2", "seconds": 0.1}
    there = text_of(
        DIED, {"lost": 3, "actor": 1, "node": "w1", "from": 128, "granted": 256},
        {"set": {"learner.lr": 0.5}, "configuration": 1, "version": 9}, {"t": at, **moved},
        {"t": at, "ready": "actor 1", "start": "fork", "seconds": 0.1},
        {"t": at, "actors": 3, "before": 4, "version": 9},
        {"t": at, "firing": 10**6, "trigger": "actors.sync", "version": 9, "actors": [1]},
    )  # fmt: skip
    again = text_of({"t": 0.0, "began": 1.7e9})
    whole = [*lines[:5_001], *there, *lines[5_001:], *again, *lines]
    (tmp_path / NAME).write_bytes(b"".join(whole))
    with JournalIndex(tmp_path / NAME) as index:
        found = timeline(index, 0, inf)
        later = timeline(index, at + 1, inf)
    assert not found.exact
    assert {(mark.member, mark.name, round(mark.at, 3)) for mark in found.marks} == {
        ("actor 1", "died", round(at, 3)), ("triggers", "rows lost", round(at, 3)),
        ("", "set learner.lr=0.5", round(at, 3)), ("", "scaled to 3 actors", round(at, 3)),
        ("actor 9", "moved", round(at, 3)),
        ("", "resumed", round(end, 3)),
    }  # fmt: skip
    facts = {mark.name: mark.facts for mark in found.marks}
    assert (facts["died"], facts["moved"]) == ({"why": "killed"}, {"from": "w1", "to": "w2"})
    assert (found.marks_left_out, found.marks_to_find) == (0, 0.0)
    assert {"triggers", "actor 9"} <= {*found.members}, "marks have rows to be drawn in"
    assert [mark.name for mark in later.marks] == ["resumed"]


def marks_of(path: Path, remembered: RareLines) -> tuple[list[Mark], int, float]:
    with JournalIndex(path) as index:
        found = timeline(index, 0, inf, rare=remembered)
    return found.marks, found.marks_left_out, found.marks_to_find


@pytest.mark.usefixtures("samples")
def test_marks_are_found_piece_by_piece_and_are_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (rare, "_PIECE", 20_000), (rare, "_AT_ONCE", 6), (timeline_module, "_MOST_MARKS", 10),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    path = tmp_path / NAME
    played(path, 400)
    lines = path.read_bytes().splitlines(keepends=True)
    deaths = [each for line in lines[::100] for each in (line, *text_of(DIED))]
    path.write_bytes(b"".join([*lines, *deaths]))
    remembered, shares = RareLines(), list[float]()
    while not shares or shares[-1]:
        marks, left_out, share = marks_of(path, remembered)
        shares.append(share)
        assert len(shares) < 50
    assert len(shares) > 2
    assert all(before > after for before, after in pairwise(shares))
    assert (len(marks), left_out) == (10, len(deaths) // 2 - 10)
    path.write_bytes(b"".join([*text_of({"t": 0.0, "began": 1.7e9}), *lines]))
    marks, *_, share = marks_of(path, remembered)
    assert (marks, share > 0) == ([], True), "another run has its place"


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    played(tmp_path / NAME, 20)
    clean = (tmp_path / NAME).read_bytes().splitlines(keepends=True)
    bad = [b"{\n", b'{"t": 1.0, "firing": -1, "trigger": "x"}\n', b'"text"\n', b'{"claims": 1}\n']
    (tmp_path / NAME).write_bytes(b"".join([*clean[:40], *bad, *clean[40:]]))
    with JournalIndex(tmp_path / NAME) as index:
        found = timeline(index, 0, inf)
    (tmp_path / NAME).write_bytes(b"".join(clean))
    with JournalIndex(tmp_path / NAME) as index:
        assert found == msgspec.structs.replace(timeline(index, 0, inf), damaged=len(bad))


def test_what_is_no_journal_has_nothing_to_show(tmp_path: Path) -> None:
    for content in (b"", b"\x00" * 999, b"step,return\n1,2\n" * 99, b'{"a": 1}\n{"t": 1e99}\n'):
        (tmp_path / NAME).write_bytes(content)
        with JournalIndex(tmp_path / NAME) as index:
            found = timeline(index, 0, inf)
        assert (found.spans, found.columns) == ([], [])
        assert found.damaged >= len([line for line in content.splitlines(True) if b"," in line])


def test_members_are_listed_as_people_do() -> None:
    members = ["actor 10", "actor 9", "triggers", "learner", "evaluator", "actor 9"]
    assert rows_in_order(members) == ["triggers", "evaluator", "learner", "actor 9", "actor 10"]


def test_it_is_json_with_the_names_that_are_kept(tmp_path: Path) -> None:
    played(tmp_path / NAME, 3)
    with JournalIndex(tmp_path / NAME) as index:
        found: dict[str, Any] = json.loads(msgspec.json.encode(timeline(index, 0, inf)))
    assert {"begin", "end", "from", "to", "exact", "members", "spans"} <= found.keys()
    assert {"member", "kind", "name", "from", "to", "facts"} == found["spans"][0].keys()


def stations(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.what, step.member) for step in steps]


@pytest.mark.usefixtures("looks_often")
def test_a_row_is_followed_from_its_round_to_its_update(tmp_path: Path) -> None:
    played(tmp_path / NAME, 300, most=40_000)
    with JournalIndex(tmp_path / NAME) as index:
        for version in (0, 1, 150, 298, 299):
            for row in (STEPS * version, STEPS * version + STEPS - 1):
                found = path_of_row(index, SHAPE, 3, row)
                expected = [("round", "actor 3"), ("firing", "triggers"), ("update", "learner")]
                assert stations(found.steps) == expected
                made, firing, update = found.steps
                assert (made.facts["version"], update.facts["version"]) == (version, version + 1)
                assert made.end <= firing.begin <= update.begin + 1e-6 < update.end
                assert (found.lag, found.said) == (0, "")
        for actor, row in ((3, STEPS * 300), (9, 0)):
            nothing = path_of_row(index, SHAPE, actor, row)
            assert (nothing.steps, nothing.lag) == ([], None)
            assert f"no round of actor {actor}" in nothing.said


def test_a_row_may_be_dropped_or_not_be_learned_from_yet(tmp_path: Path) -> None:
    book = Journal(tmp_path / NAME)
    book.done(1.0, 1, "actor 0", version=0, stop=8)
    dropped = Firing((Claim(0, 4, 8),), (Claim(0, 0, 4),), number=2, trigger="learner.update")
    book.fired(1.1, dropped)
    book.close()
    with JournalIndex(tmp_path / NAME) as index:
        assert "older than max_lag" in path_of_row(index, SHAPE, 0, 2).said
        assert "no update with it has ended" in path_of_row(index, SHAPE, 0, 6).said


@pytest.mark.usefixtures("looks_often")
def test_a_version_is_followed_from_its_rows_to_the_next(tmp_path: Path) -> None:
    played(tmp_path / NAME, 100, most=20_000)
    with JournalIndex(tmp_path / NAME) as index:
        for version in (1, 50, 99):
            steps = path_of_version(index, SHAPE, version).steps
            assert stations(steps[:2]) == [("firing", "triggers"), ("update", "learner")]
            assert sorted(stations(steps[2:-1])) == [("round", f"actor {r}") for r in range(ACTORS)]
            assert steps[-1].facts["version"] == version + 1
        assert stations(path_of_version(index, SHAPE, 100).steps)[-1] == ("update", "learner")
        with pytest.raises(Refused, match="version 101"):
            path_of_version(index, SHAPE, 101)


@pytest.mark.parametrize("places", [128, 8])
def test_lags_are_counted_or_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    played(tmp_path / NAME, 300, lag=lambda version: version % 3)
    monkeypatch.setattr(lags, "_PLACES", places)
    monkeypatch.setattr(lags, "_PIECE", 16 << 10 if places > 100 else 6_000)
    with JournalIndex(tmp_path / NAME) as index:
        found = of_journal(index)
    if places > 100:
        assert found.counts == dict.fromkeys(("0", "1", "2-3"), 100 * ACTORS)
        assert (found.mean, found.max) == (1.0, 2)
    else:
        assert set(found.counts) == {"0", "1", "2-3"}
        assert 0 < sum(found.counts.values()) < 300 * ACTORS
    assert found.exact is (places > 100)


def test_lags_of_records_are_told_in_the_order_of_their_classes() -> None:
    counts = {"4-7": 1, "0": 5, "<img>": 9}
    told = Lags("rows", {"0": 5, "1": 0, "2-3": 0, "4-7": 1}, 0.75, 5)
    assert of_progress(Status(lags=counts, lag_mean=0.75, lag_max=5)) == told
    summary = {"lag_histogram": counts, "lag_by_actor": {}, "lag_mean": 0.75, "lag_max": 5}
    assert of_summary(summary) == told


def test_how_actors_rested_is_shown_of_a_long_time_too() -> None:
    """It is a part of a wait: all shares of a member make 1."""
    spans = [
        Span("actor 0", "actors", "sample", 0.0, 1.0),
        Span("actor 0", "wait", "wait", 1.0, 9.0, {"for": "learner"}),
        Span("actor 0", "rest", "frozen", 2.0, 4.0),
        Span("actor 0", "rest", "checkpointed", 4.0, 8.0),
        Span("actor 0", "actors", "sample", 9.0, 11.0),
    ]
    assert _column(spans, 0.0, 20.0).shares == {
        "actor 0": {"frozen": 0.2, "checkpointed": 0.4, "wait for learner": 0.2, "sample": 0.2}
    }
