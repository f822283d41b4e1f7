"""A journal as a trace: rows of slices, arrows from causes to what they cause."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artos.errors import Refused
from deploy.tracing.counters import Counters
from deploy.tracing.events import Event, Tracer, within
from deploy.tracing.file import write
from deploy.tracing.lines import Config
from head.records.run_folder import RunFolder
from head.run.request import Request

IN_TURN = (
    {"t": 0.5, "ready": "learner", "start": "fork", "seconds": 0.2},
    {"t": 0.5, "ready": "actor 0", "start": "clone", "seconds": 0.1},
    {"t": 0.6, "firing": 1, "trigger": "actors.sample", "version": 0},
    {"t": 0.8, "firing": 2, "trigger": "learner.update", "version": 0, "claims": [[0, 0, 4]]},
    {"t": 0.81, "done": 1, "by": "actor 0", "version": 0, "seconds": 0.15, "waited": 0.01},
    {"t": 0.9, "firing": 3, "trigger": "actors.sample", "version": 1},
    {
        "t": 0.91, "done": 2, "by": "learner", "version": 1, "lag_mean": 0.0, "lag_max": 0,
        "lags": [[0, 0.0, 0]], "seconds": 0.1,
        "times": {"gather": 0.02, "learn": 0.07, "wait": 0.3},
    },
    {"t": 0.99, "done": 3, "by": "actor 0", "version": 1, "seconds": 0.5},
    {"t": 1.0, "died": "actor 0", "step": 4, "why": "killed"},
    {"set": {"learner.lr": 0.5}, "configuration": 1, "version": 1},
)  # fmt: skip


def traced(*lines: dict[str, Any]) -> list[Event]:
    return [*Tracer(steps=4).of(lines)]


def rows(events: list[Event]) -> dict[str, list[Event]]:
    """The slices of each row, by what the row is called."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[names[event["tid"]]].append(event)
    return found


def arrows(events: list[Event]) -> list[tuple[str, Event, Event]]:
    tails = {e["id"]: e for e in events if e["ph"] == "s"}
    heads = {e["id"]: e for e in events if e["ph"] == "f"}
    assert tails.keys() == heads.keys()
    return [(tail["name"], tail, heads[number]) for number, tail in tails.items()]


def test_a_row_has_what_its_member_did_one_after_another() -> None:
    found = rows(traced(*IN_TURN))
    assert [e["name"] for e in found["actor 0"]] == [
        "start: clone", "wait", "wait", "wait", "sample", "sample", "lost",
    ]  # fmt: skip
    update = found["learner"][3]
    assert [e["name"] for e in found["learner"]] == [
        "start: fork", "wait", "wait", "update", "gather", "learn",
    ]  # fmt: skip
    assert (update["ts"], update["dur"]) == (pytest.approx(810_000), pytest.approx(100_000))
    for part in found["learner"][4:]:
        assert update["ts"] <= part["ts"] <= part["ts"] + part["dur"] <= update["ts"] + 100_000
    for slices in found.values():
        outer = [e for e in slices if e["cat"] not in {"part", "firing"}]
        for before, after in pairwise(outer):
            ended = before["ts"] + before["dur"]
            assert ended == pytest.approx(after["ts"], abs=0.01), "else one hides the other"


def test_how_an_actor_rested_is_within_its_waits() -> None:
    """It was an image from before its version came until its process was awaited."""
    late = {
        "t": 1.3, "done": 3, "by": "actor 0", "version": 1, "seconds": 0.1, "waited": 0.1,
        "rested": [["checkpointed", 0.35, 0.25], ["restoring", 0.1, 0.1]],
    }  # fmt: skip
    found = rows(traced(*IN_TURN[:7], late))["actor 0"]
    waits = [e for e in found if e["cat"] == "wait"]
    rests = [e for e in found if e["cat"] == "rest"]
    told = [(e["name"], round(e["ts"] / 1e6, 4), round(e["dur"] / 1e6, 4)) for e in rests]
    assert told == [
        ("checkpointed", 0.85, 0.05), ("checkpointed", 0.9, 0.2), ("restoring", 1.1, 0.1),
    ]  # fmt: skip
    for rest in rests:
        assert any(
            w["ts"] <= rest["ts"] and rest["ts"] + rest["dur"] <= w["ts"] + w["dur"] + 0.01
            for w in waits
        ), "a viewer would not show it below its wait"
    assert "rested" not in found[-1]["args"]


@pytest.mark.parametrize(("more", "told"), [({}, []), ({"wait_for_device": 0.0}, [0.1])])
def test_an_update_on_a_leased_device_says_how_long_it_had_it(
    more: dict[str, float], told: list[float]
) -> None:
    """Also one that did not have to wait for it."""
    update = {**IN_TURN[6], "times": {"learn": 0.07, **more}}
    found = rows(traced(*IN_TURN[:6], update))["learner"]
    assert [e["args"]["leased"] for e in found if "leased" in e.get("args", {})] == told


def waits(events: list[Event], member: str) -> list[tuple[float, float, dict[str, Any]]]:
    """From when to when, in seconds, a member waited, and what for."""
    return [
        (round(e["ts"] / 1e6, 4), round((e["ts"] + e["dur"]) / 1e6, 4), e["args"])
        for e in rows(events)[member]
        if e["name"] == "wait"
    ]


def test_a_wait_is_for_what_was_missing_last() -> None:
    """Rows of an actor, a version of the learner, then to begin, maybe a process to run in."""
    late = {"t": 1.2, "done": 3, "by": "actor 0", "version": 1, "seconds": 0.1, "waited": 0.1}
    last = {"t": 1.3, "firing": 4, "trigger": "learner.update", "version": 1, "claims": [[0, 4, 8]]}
    done = {"t": 1.4, "done": 4, "by": "learner", "version": 2, "seconds": 0.1}
    events = traced(*IN_TURN[:7], late, last, done)
    assert waits(events, "learner") == [
        (0.5, 0.8, {"for": "rows", "who": "actor 0"}),
        (0.8, 0.81, {"for": "hand-over"}),
        (0.91, 1.3, {"for": "rows", "who": "actor 0"}),
    ]
    assert waits(events, "actor 0") == [
        (0.5, 0.6, {"for": "firing"}),  # version 0 is there before all
        (0.6, 0.65, {"for": "hand-over"}),
        (0.65, 0.66, {"for": "process"}),
        (0.81, 0.9, {"for": "version", "who": "learner"}),
        (0.9, 1.0, {"for": "hand-over"}),
        (1.0, 1.1, {"for": "process"}),
    ]


def test_in_the_midst_of_a_journal_no_time_of_a_member_is_blank() -> None:
    """Of what it did before, the last firing may be among the lines that are read, or not."""
    half = [*Tracer(begun=True).of([IN_TURN[3], *IN_TURN[5:7]])]
    assert waits(half, "learner") == [(0.8, 0.81, {"for": "hand-over"})]
    less = [*Tracer(begun=True).of(IN_TURN[4:7])]
    assert waits(less, "learner") == [(0.51, 0.81, {"for": "firing"})], "it says for how long"


def test_who_died_before_it_could_say_how_long_it_took_was_at_work() -> None:
    died = {"t": 1.0, "done": 3, "by": "actor 0", "recovered": True}
    found = rows(traced(*IN_TURN[:7], died))["actor 0"][-1]
    assert (found["name"], found["ts"], found["dur"]) == ("sample", 900_000, 100_000)


def test_from_its_death_until_it_is_started_again_a_member_waits_for_that() -> None:
    back = {"t": 1.6, "ready": "actor 0", "start": "fork", "seconds": 0.2}
    assert waits(traced(*IN_TURN[:9], back), "actor 0")[-1] == (1.0, 1.4, {"for": "restart"})
    assert rows(traced(*IN_TURN[:9]))["actor 0"][-1]["name"] == "lost"
    again = {**IN_TURN[8], "t": 1.2}
    assert waits(traced(*IN_TURN[:9], again, back), "actor 0")[-1][:2] == (1.0, 1.4)


def test_replicas_begin_again_together() -> None:
    start = {"t": 0.55, "ready": "learner 1", "start": "fork", "seconds": 0.2}
    died = {"t": 1.0, "died": "learner 1", "step": 1, "why": "killed"}
    back = {"t": 1.6, "ready": "learner", "start": "fork", "seconds": 0.2}
    events = traced(IN_TURN[0], start, *IN_TURN[1:7], died, back, {**back, "ready": "learner 1"})
    for name in ("learner", "learner 1"):
        assert waits(events, name)[-1] == (1.0, 1.4, {"for": "restart"})


SCALED: tuple[dict[str, Any], ...] = (
    *({"t": 0.5, "ready": f"actor {rank}", "start": "fork", "seconds": 0.1} for rank in (0, 1)),
    {"t": 0.6, "firing": 1, "trigger": "actors.sample", "version": 0},
    *({"t": 0.8, "done": 1, "by": f"actor {rank}", "seconds": 0.2} for rank in (0, 1)),
    {"t": 1.0, "actors": 1, "before": 2, "version": 1},
    {"t": 3.0, "actors": 2, "before": 1, "version": 9},
    {"t": 3.0, "firing": 2, "trigger": "actors.sample", "version": 9, "after": "learner"},
    {"t": 3.2, "done": 2, "by": "actor 1", "seconds": 0.2},
)


def test_who_was_scaled_away_waited_for_nobody() -> None:
    assert waits(traced(*SCALED), "actor 1") == [
        (0.5, 0.6, {"for": "firing"}), (0.8, 1.0, {"for": "firing"}),
        (1.0, 3.0, {"for": "scaled away"}),
    ]  # fmt: skip
    told = [(e["name"], e["ts"] / 1e6, e["s"]) for e in traced(*SCALED) if e["ph"] == "i"]
    assert told == [("scaled to 1 actor", 1.0, "g"), ("scaled to 2 actors", 3.0, "g")]
    again = {"t": 2.9, "ready": "actor 1", "start": "fork", "seconds": 0.5}
    assert waits(traced(*SCALED[:6], again, *SCALED[6:]), "actor 1")[2:] == [
        (1.0, 2.4, {"for": "scaled away"}), (2.9, 3.0, {"for": "scaled away"}),
    ]  # fmt: skip
    late = {"t": 2.0, "firing": 2, "trigger": "learner.update", "version": 1}
    assert waits(traced(*SCALED[:6], late), "actor 1")[2:] == [(1.0, 2.0, {"for": "scaled away"})]


def test_who_is_ready_before_it_takes_part_has_not_been_waiting_for_a_version() -> None:
    new = {"t": 2.0, "ready": "actor 2", "start": "fork", "seconds": 0.5}
    more = {**SCALED[6], "actors": 3}
    done = {**SCALED[8], "by": "actor 2"}
    assert waits(traced(*SCALED[:6], new, more, SCALED[7], done), "actor 2") == [
        (2.0, 3.0, {"for": "scaled away"})
    ]


def test_replicas_do_what_the_first_of_them_does() -> None:
    """It answers for all: no line but that of their start names them."""
    start = {"t": 0.55, "ready": "learner 1", "start": "fork", "seconds": 0.2}
    found = rows(traced(IN_TURN[0], start, *IN_TURN[1:]))
    told = [(e["name"], e["ts"] / 1e6, e["args"].get("with")) for e in found["learner 1"]]
    assert told == [
        ("start: fork", 0.35, None), ("wait", 0.55, "learner"), ("wait", 0.8, "learner"),
        ("update", 0.81, "learner"),
    ]  # fmt: skip
    later = rows([*Tracer(begun=True, replicas={"learner 1"}).of(IN_TURN[2:])])
    assert "update" in [e["name"] for e in later["learner 1"]]


def test_rows_are_those_that_a_line_names() -> None:
    """In the midst of a journal, nobody counts them from its beginning."""
    named = [{**line, "stop": 4} if line.get("by") == "actor 0" else line for line in IN_TURN[2:]]
    names = [name for name, _, _ in arrows([*Tracer(steps=4, begun=True).of(named)])]
    assert "rows" in names
    names = [name for name, _, _ in arrows([*Tracer(steps=4, begun=True).of(IN_TURN[2:])])]
    assert "rows" not in names


def test_arrows_lead_from_causes_to_what_they_cause() -> None:
    events = traced(*IN_TURN)
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = [(name, names[s["tid"]], names[f["tid"]]) for name, s, f in arrows(events)]
    assert sorted(found) == [
        ("fires", "triggers", "actor 0"),
        ("fires", "triggers", "actor 0"),
        ("fires", "triggers", "learner"),
        ("rows", "actor 0", "triggers"),
        ("version", "learner", "triggers"),
    ]
    slices = [e for e in events if e["ph"] == "X"]
    for _, tail, head in arrows(events):
        assert tail["ts"] <= head["ts"]
        for end in (tail, head):
            assert any(
                e["tid"] == end["tid"] and e["ts"] <= end["ts"] <= e["ts"] + e["dur"]
                for e in slices
            ), "a viewer draws no arrow that begins or ends in the void"


def caused(*firings: dict[str, Any]) -> list[tuple[float, str]]:
    """When firings were that came of a version, and who made it: of two who made one each.

    Nobody acts by the second one, so its updates have no lags.
    """
    made: list[dict[str, Any]] = []
    for t, by in ((1, "learner"), (2, "model")):
        made += [{"t": t - 0.5, "firing": t, "trigger": f"{by}.update", "version": 0}]
        made += [{"t": t, "done": t, "by": by, "seconds": 0.1, "version": 1}]
    made[1]["lags"] = [[0, 0.0, 0]]
    events = traced(*made, *firings)
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = [(s, f) for name, s, f in arrows(events) if name == "version"]
    return [(round(f["ts"] / 1e6, 3), names[s["tid"]]) for s, f in found]


@pytest.mark.parametrize(
    ("trigger", "after", "who"),
    [
        ("actors.sample", "learner", "learner"),
        ("actors.sample", "model", "model"),
        ("evaluator.evaluate", "learner", "learner"),
        ("learner.update", "actor 0", None),
        ("evaluator.evaluate", "evaluator", None),
    ],
)
def test_a_version_is_of_the_learner_that_the_journal_names(
    trigger: str, after: str, who: str | None
) -> None:
    firing = {"t": 3, "firing": 3, "trigger": trigger, "version": 1, "after": after}
    assert caused(firing) == ([(3, who)] if who else [])


def test_rounds_that_an_actor_was_waited_for_are_under_the_version_of_the_only_learner() -> None:
    firing = {"t": 3, "firing": 3, "trigger": "actors.sample", "version": 1, "after": "actor 0"}
    assert caused(firing) == [], "two have made a version 1"
    names = [name for name, _, _ in arrows(traced(*IN_TURN, firing))]
    assert names.count("version") == 2


def test_what_happened_beside_is_shown_where_it_did() -> None:
    events = traced(*IN_TURN)
    died, changed = [e for e in events if e["ph"] == "i"]
    assert (died["name"], died["args"]["why"]) == ("died", "killed")
    assert (changed["name"], changed["s"]) == ("set learner.lr=0.5", "g")
    (lag,) = [e for e in events if e["ph"] == "C"]
    assert lag["args"] == {"mean": 0.0, "max": 0}


def test_a_resumed_run_goes_on_after_what_was_before() -> None:
    again = [{**line, "t": line["t"] - 0.4} if "t" in line else line for line in IN_TURN[2:8]]
    late = [{**line, "t": line["t"] + 9.0} if "t" in line else line for line in IN_TURN]
    events = traced(*late, *again)
    assert "resumed" in [e["name"] for e in events if e["ph"] == "i"]
    for slices in rows(events).values():
        times = [e["ts"] for e in slices]
        assert times == sorted(times)
    names = [name for name, _, _ in arrows(events)]
    assert (names.count("rows"), names.count("version")) == (1, 2), "its rows count on"


def test_also_one_that_was_soon_ended() -> None:
    """Its times do not fall by much, but it says that it goes on."""
    events = traced(*IN_TURN, {"t": 0.5, "began": 9.5}, *IN_TURN[2:8])
    assert "resumed" in [e["name"] for e in events if e["ph"] == "i"]
    ends = [e["ts"] for e in rows(events)["actor 0"]]
    assert ends == sorted(ends)


def test_a_part_of_the_time_has_what_touches_it() -> None:
    events = [*within(traced(*IN_TURN), 0.78, 0.805)]
    assert {e["name"] for e in events if e["ph"] == "X"} == {"sample", "learner.update", "wait"}
    assert [name for name, _, _ in arrows(events)] == ["rows"]


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "r", Request("ppo").config()).close()
    (tmp_path / "r" / "journal.jsonl").write_text(json.dumps(IN_TURN[0]) + "\n")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("link", "pipe"):
        write(tmp_path / "r", tmp_path / name, 0.0, inf)
    assert os.read(reader, 1 << 16) == (tmp_path / "there").read_bytes()
    os.close(reader)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_is_whole_or_it_is_said_what_is_wrong(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "r", Request("ppo").config()).close()
    journal = tmp_path / "r" / "journal.jsonl"
    journal.write_text("".join(json.dumps(line) + "\n" for line in IN_TURN))
    written = write(tmp_path / "r", tmp_path / "out.json", 0.0, inf)
    found = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert (written.events, written.seconds) == (len(found), pytest.approx(1.0))
    with pytest.raises(Refused, match="must come before"):
        write(tmp_path / "r", tmp_path / "out.json", 2.0, 1.0)
    journal.write_text(f"{json.dumps(IN_TURN[0])}\n{json.dumps(IN_TURN[1])}\n")
    assert write(tmp_path / "r", tmp_path / "out.json", 0.0, inf).damaged == 0
    sound = (tmp_path / "out.json").read_bytes()
    for damage in (
        '{"t": "soon"}', '{"t": 1, "firing": -1}', "{", '{"claims": [[0, "x"]]}',
        '{"firing": 1, "trigger": "x"}', '{"firing": 1, "version": 1}', '{"done": 1}',
        '{"ready": "actor 0"}', '{"done": 1, "by": "learner", "lags": []}',
        '{"firing": 1, "trigger": "x", "version": 1, "claims": [[0]]}',
        f'{{"firing": 1, "trigger": "x", "version": {10**30}}}',
        f'{{"done": 1, "by": "learner", "new": [{10**30}]}}',
        f'{{"set": {{"learner.lr": {10**30}}}}}',
        '{"firing": 1, "trigger": "x", "version": 1, "dropped": 1}', f'{{"t": {10**400}}}',
    ):  # fmt: skip
        journal.write_text(f"{json.dumps(IN_TURN[0])}\n{damage}\n{json.dumps(IN_TURN[1])}\n")
        assert write(tmp_path / "r", tmp_path / "out.json", 0.0, inf).damaged == 1, damage
        assert (tmp_path / "out.json").read_bytes() == sound
    for foreign in ("{\n" * 3, '{"event": "push"}\n'):
        journal.write_text(foreign)
        with pytest.raises(Refused, match="no line of its journal is one that ARTOS writes"):
            write(tmp_path / "r", tmp_path / "out.json", 0.0, inf)
    assert (tmp_path / "out.json").read_bytes() == sound
    assert {path.name for path in tmp_path.iterdir()} == {"r", "out.json"}
    with pytest.raises(Refused, match="give the folder of a run"):
        write(tmp_path, tmp_path / "out.json", 0.0, inf)


def counted(*lines: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """When counters had which values, in seconds."""
    found = defaultdict(list)
    for event in Counters().of(traced(*lines)):
        if event["ph"] == "C" and event["name"] != "policy lag":
            (value,) = event["args"].values()
            found[event["name"]].append((round(event["ts"] / 1e6, 4), value))
    return found


ROUNDS: tuple[dict[str, Any], ...] = (
    {"t": 0.1, "firing": 1, "trigger": "actors.sample", "version": 0},
    {"t": 0.3, "done": 1, "by": "actor 0", "stop": 4, "seconds": 0.2},
    {"t": 0.6, "done": 1, "by": "actor 1", "stop": 4, "seconds": 0.4},
)


def test_counters_say_how_full_the_buffer_is_and_how_many_slots_are_held() -> None:
    claims = [[0, 0, 4], [1, 0, 2]]
    fired = {"t": 0.7, "firing": 2, "trigger": "learner.update", "version": 0, "claims": claims}
    found = counted(*ROUNDS, fired, {"lost": 1, "actor": 1, "node": "w", "from": 3, "granted": 4})
    assert found["slots"] == [(0.1, 1), (0.2, 2), (0.3, 1), (0.6, 0)]
    assert found["fill"] == [(0.7, 2), (0.7, 1)]
    drawn = {"t": 0.7, "firing": 2, "trigger": "learner.update", "version": 0}
    whole = {**drawn, "claims": [[0, 0, 3, 1]]}
    assert "fill" not in counted(*ROUNDS, drawn, whole), "nobody knows what is still of use"


def test_the_machine_is_that_of_the_last_part() -> None:
    plain = {"workload": "ppo", "settings": {}, "folder": "", "host": {"cpus": 4}}
    assert msgspec.convert(plain, Config).cpus == 4
    parts = [{"host": {"cpus": 8}}, {"host": {"cpus": 2}}]
    assert msgspec.convert(plain | {"resumed": parts}, Config).cpus == 2
    assert msgspec.convert(plain | {"resumed": [*parts, {}]}, Config).cpus == 4
