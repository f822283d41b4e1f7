"""What a replay takes from a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from artos.errors import Refused
from artos.protocol.invocations import Claim
from deploy.replay.script import Fired, Round, Script, Started


def script(tmp_path: Path, *lines: dict[str, Any]) -> Script:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return Script.parts(path)[0]


def test_rounds_and_restarts_of_each_actor_in_order(tmp_path: Path) -> None:
    found = script(
        tmp_path,
        {"t": 0.1, "ready": "actor 1", "start": "fork", "incarnation": 1},
        {"t": 0.1, "ready": "learner", "start": "fork"},
        {"t": 0.2, "firing": 1, "trigger": "actors.sample", "version": 0},
        {"t": 0.3, "done": 1, "by": "actor 1", "version": 0, "stop": 8, "asked": [0], "rows": 5,
         "large": "AQIDBA=="},
        {"firing": 2, "trigger": "learner.update", "claims": [[1, 0, 8], [0, 0, 8, 2]]},
        {"died": "actor 1", "step": 8, "why": "killed"},
        {"again": 1, "by": "actor 1", "version": 0, "stop": 16, "asked": [4, 1, 0.25], "rows": 6},
        {"ready": "actor 1", "start": "fork", "incarnation": 3},
        {"done": 3, "by": "actor 1", "version": 1, "stop": 0, "asked": [8]},
        {"done": 2, "by": "learner", "version": 1},
    )  # fmt: skip
    assert [*found.actors[1]] == [
        Started(1),
        Round(1, 8, True, 0, 0, None, 0, 5, large=b"\1\2\3\4"),
        Round(1, 16, True, 0, 4, 0.25, 0, 6),
        Started(3),
        Round(3, 0, True, 1, 8, None, 0, None),
    ]
    assert found.firings[2] == Fired("learner.update", (Claim(1, 0, 8), Claim(0, 0, 8, 2)))
    assert [*found.bound()] == [0, 0, 1]
    assert found.asked


def test_the_first_round_of_a_process_binds_even_if_it_need_not(tmp_path: Path) -> None:
    asked = [
        {"done": n, "by": "actor 0", "version": 4, "stop": 8 * n, "asked": [0, 0]} for n in (1, 2)
    ]
    found = script(tmp_path, {"ready": "actor 0", "incarnation": 1}, *asked)
    assert [*found.bound()] == [4]


def test_of_a_round_whose_node_was_lost_some_rows_are_left(tmp_path: Path) -> None:
    found = script(
        tmp_path,
        {"ready": "actor 0", "start": "fork", "incarnation": 1},
        {"done": 1, "by": "actor 0", "version": 0, "stop": 8, "asked": [0], "rows": 5},
        {"lost": 4, "actor": 0, "node": "w1", "from": 10, "granted": 16},
        {"again": 2, "by": "actor 0", "version": 1, "stop": 16, "asked": [8], "kept": 10},
        {"ready": "actor 0", "start": "cold", "incarnation": 9},
        {"done": 2, "by": "actor 0", "version": 2, "stop": 16, "asked": [8]},
    )
    assert [*found.actors[0]] == [
        Started(1),
        Round(1, 8, True, 0, 0, None, 0, 5),
        Round(2, 16, True, 1, 8, None, 0, None, kept=10),
        Started(9),
        Round(2, 16, True, 2, 8, None, 0, None),
    ]
    assert not found.unknown


def test_a_round_that_ended_early(tmp_path: Path) -> None:
    """Rows of its actor that came after it, from a node that was lost, are of no known round."""
    lines: tuple[dict[str, Any], ...] = (
        {"ready": "actor 0", "incarnation": 1},
        {
            "done": 1,
            "by": "actor 0",
            "version": 0,
            "stop": 100,
            "asked": [0],
            "rows": 5,
            "ended": 60,
        },
        {"lost": 0, "actor": 0, "node": "w1", "from": 90, "granted": 300},
        {"ready": "actor 0", "incarnation": 9},
    )
    found = script(tmp_path, *lines)
    _, round_, _ = found.actors[0]
    assert isinstance(round_, Round)
    assert (round_.stop, round_.end) == (100, 60)
    assert found.unknown == {0}


def test_rows_of_a_lost_node_that_no_line_tells_of(tmp_path: Path) -> None:
    """An earlier ARTOS did not record of which round they are."""
    found = script(
        tmp_path,
        {"done": 1, "by": "actor 0", "version": 0, "stop": 8, "asked": [0]},
        {"done": 1, "by": "actor 1", "version": 0, "stop": 8, "asked": [0]},
        {"lost": 4, "actor": 0, "node": "w1", "from": 10, "granted": 16},
        {"lost": 2, "actor": 1, "node": "w1", "from": 8, "granted": 16},
        {"ready": "actor 0", "incarnation": 9},
        {"ready": "actor 1", "incarnation": 9},
    )
    assert found.unknown == {0}


def test_who_goes_on_by_an_image_is_not_started(tmp_path: Path) -> None:
    found = script(
        tmp_path,
        {"ready": "actor 0", "start": "fork", "incarnation": 1},
        {"ready": "actor 0", "start": "moved", "from": "w2", "to": "w1", "incarnation": 9},
    )
    assert [*found.actors[0]] == [Started(1)]


def test_settings_by_the_number_of_their_configuration(tmp_path: Path) -> None:
    lines = ({"set": {"learner.lr": 0.1}, "configuration": 1, "version": 0},
             {"set": {"max_lag": 2.0}, "configuration": 2, "version": 3})  # fmt: skip
    found = script(tmp_path, *lines).configurations
    assert found[1].of("learner") == found[2].of("learner") == {"lr": 0.1}
    assert (found[1].settings.get("max_lag"), found[2].settings["max_lag"]) == (None, 2)


@pytest.mark.parametrize(
    "line",
    [
        {"done": 1, "by": "actor 0", "asked": [1, 2]},
        {"done": 1, "by": "actor 0", "asked": [8, 1, 1, 0]},
        {"done": 1, "by": "actor 0", "stop": "x", "asked": [1]},
        {"firing": 1, "trigger": "learner.update", "claims": [[0, -1, 3]]},
        {"done": 1, "by": "actor 0", "stop": 8, "asked": [0], "large": "no base64!"},
        {"firing": "one"},
        {"set": {"lr": "high"}, "configuration": 1},
    ],
)
def test_a_line_that_is_no_line_of_a_journal_is_named(tmp_path: Path, line: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"journal\.jsonl: line 2 is no line of a journal"):
        script(tmp_path, {"t": 1.0}, line)


def test_a_continuation_is_a_part_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines: list[dict[str, Any]] = [
        {"t": 0.0, "began": 1.5},
        {"t": 0.1, "firing": 1, "trigger": "actors.sample", "version": 0},
        {"set": {"learner.lr": 0.5, "env.level": 2.0}, "configuration": 4},
        {"t": 0.0, "began": 9.5},
        {"t": 0.1, "firing": 1, "trigger": "learner.update", "claims": [[0, 0, 8]]},
    ]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    first, second = Script.parts(path, [["learner.lr"]])
    assert first.firings == {1: Fired("actors.sample", ())}
    assert second.firings == {1: Fired("learner.update", (Claim(0, 0, 8),))}
    assert first.configurations[4].settings == {"learner.lr": 0.5, "env.level": 2.0}
    ((number, begins),) = second.configurations.items()
    assert (number, begins.settings) == (5, {"env.level": 2.0})


def test_with_the_books_of_another_part_what_was_fired_there_is_still_done(tmp_path: Path) -> None:
    """The part between, which was lost, had gone on with the same ones."""
    path = tmp_path / "journal.jsonl"
    lines: list[dict[str, Any]] = [
        {"t": 0.0, "began": 1.5},
        {"set": {"env.level": 2.0}, "configuration": 1},
        {"t": 0.1, "firing": 1, "trigger": "learner.update", "claims": [[0, 0, 8]]},
        {"t": 0.0, "began": 5.5},
        {"t": 0.1, "firing": 2, "trigger": "actors.sync"},
        {"t": 0.0, "began": 9.5},
        {"t": 0.1, "firing": 2, "trigger": "actors.sample"},
    ]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    first, between, last = Script.parts(path, after=[0, 0])
    claimed = Fired("learner.update", (Claim(0, 0, 8),))
    assert first.firings == {1: claimed}
    assert between.firings == {1: claimed, 2: Fired("actors.sync", ())}
    assert last.firings == {1: claimed, 2: Fired("actors.sample", ())}
    assert last.configurations[1].settings == {"env.level": 2.0}
