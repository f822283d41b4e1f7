"""Advice begins with the actors that take part, not with all that ever did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from artos.errors import Refused
from deploy.why.report import report

CONFIG = {
    "workload": "ppo", "settings": {"actors": 8}, "folder": "/code", "host": {"cpus": 4},
    "plan": {"actors": 8, "envs": 1, "steps": 16, "triggers": {}},
}  # fmt: skip


def updates(actors: int, first: int, begin: float, slow: float = 0.9) -> Iterator[dict[str, Any]]:
    """Five updates of 0.1 s, each from a round of each actor, of which the last is ``slow``."""
    for number in range(first, first + 10, 2):
        fired = {"t": begin, "firing": number, "trigger": "actors.sample", "version": 0}
        yield fired | {"after": "learner"}
        for rank in range(actors):
            seconds = slow if rank == actors - 1 else 0.9
            yield {"t": begin + seconds, "done": number, "by": f"actor {rank}", "seconds": seconds}
        begin += max(slow, 0.9)
        fired = {"t": begin, "firing": number + 1, "trigger": "learner.update", "version": 0}
        yield fired | {"after": f"actor {actors - 1}"}
        begin += 0.1
        done = {"t": begin, "done": number + 1, "by": "learner", "version": 1, "seconds": 0.1}
        yield done | {"times": {"learn": 0.1}}


BEGAN, AGAIN = {"t": 0.001, "began": 1795761773.134}, {"t": 0.001, "began": 1795761999.134}
SCALED = {"actors": 2, "version": 5}
EIGHT = tuple(updates(8, 1, 0.1, slow=2.0))


@pytest.mark.parametrize(
    "lines",
    [
        [BEGAN, *EIGHT, SCALED, *updates(2, 11, 11.0)],
        [BEGAN, *EIGHT, SCALED, AGAIN, *updates(2, 1, 0.1)],
        [BEGAN, *EIGHT, AGAIN, {"actors": 4, "version": 0}, *updates(4, 1, 0.1), SCALED],
    ],
    ids=["scaled", "resumed", "resumed and scaled"],
)
def test_those_that_left_do_not_count(lines: Sequence[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "journal.jsonl").write_text(text)
    said = report(tmp_path)
    assert (said.bottleneck, said.advice) == ("slow environment", ("--actors 4",)), said
    assert "one straggler" not in [each.bottleneck for each in said.others], "it left"


def test_a_journal_that_artos_did_not_write_is_refused(tmp_path: Path) -> None:
    """An empty one may be of a run that has only just begun."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"event": "push"}\n{"event": "pull"}\n')
    with pytest.raises(Refused, match="no line of its journal is one that ARTOS writes"):
        report(tmp_path)
    for text in ("", '{"event": "push"}\n{"t": 0.5, "blocked": 0.1}\n'):
        journal.write_text(text)
        assert report(tmp_path).figure == "no update is over yet"


def test_all_gains_are_rounded_alike(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    lines = [BEGAN, *updates(2, 1, 0.1, slow=2.03)]
    (tmp_path / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    said = report(tmp_path)
    assert said.others
    for gain in (said.gain, *(each.gain for each in said.others)):
        assert gain == round(gain, 2)
