"""Of a run in one process a wait is charged to whoever had the process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_who_takes_part import CONFIG

from deploy.why.diagnosis import findings
from deploy.why.evidence import Evidence
from deploy.why.history import History
from deploy.why.report import report

LAG = {"type": "triggers.data_key:DataKeyTrigger", "fields": {"n": None, "max_lag": 0}}
TABLE = {"learner.update": LAG, "actors.sample": {}}
SAMPLE = {"trigger": "actors.sample", "version": 0}
UPDATE = {"trigger": "learner.update", "version": 0}


def lines_of(
    rounds: int, sample: float, learn: float, over: float, actors: int = 2
) -> Iterator[dict[str, Any]]:
    """Actors sample one after another, then the learner learns; ``over`` goes by before each."""
    now = 0.1
    for member in ("learner", *(f"actor {rank}" for rank in range(actors))):
        yield {"t": now, "ready": member, "start": "cold", "seconds": 0.1}
    for number in range(1, 2 * rounds, 2):
        yield {"t": now, "firing": number, "after": "learner", **SAMPLE}
        for rank in range(actors):
            now += over + sample
            if rank == actors - 1:  # its rows are seen before it has answered
                yield {"t": now, "firing": number + 1, "after": f"actor {rank}", **UPDATE}
            yield {"t": now, "done": number, "by": f"actor {rank}", "seconds": sample}
        now += over + learn
        done = {"done": number + 1, "by": "learner", "seconds": learn, "times": {"learn": learn}}
        yield {"t": now, **done}


def seen(
    sample: float = 0.1, learn: float = 0.1, over: float = 0.001, actors: int = 2, cpus: int = 2
) -> Evidence:
    """What is known of such a run."""
    history = History({"environment": 1.0}, inline=True)
    history.read(lines_of(10, sample, learn, over, actors))
    settings = {"actors": actors, "steps": 16, "max_lag": 0, "learners": 1}
    return Evidence(history, settings, TABLE, actors, steps=16, cpus=cpus)


def test_it_is_charged_to_the_members_that_took_their_turn() -> None:
    run = seen()
    wall = 10 * 0.303
    assert run.shares["actor 1"] == pytest.approx(
        {
            "environment": 10 * 0.1 / wall, "wait: actor 0": 10 * 0.1 / wall,
            "wait: learner": 9 * 0.101 / wall, "wait: hand-over": 10 * 0.002 / wall,
            "wait: end": 0.101 / wall,
        }
    )  # fmt: skip
    for kinds in run.shares.values():
        assert sum(kinds.values()) == pytest.approx(1.0)


def test_the_chain_leads_through_all_who_had_the_process() -> None:
    run = seen()
    assert run.seconds == pytest.approx(9 * 0.303)
    assert run.sampling == pytest.approx(0.2 / 0.303)
    assert run.learning == pytest.approx(0.1 / 0.303)
    assert run.share("hand-over") == pytest.approx(0.003 / 0.303)


def test_processes_of_their_own_are_advised_where_they_pay() -> None:
    (found,) = findings(seen())
    assert (found.bottleneck, found.advice) == ("one process", ("leave out --inline",))
    assert found.gain == pytest.approx(0.303 / (0.303 - 0.1 + 0.005 * 10 / 9), rel=1e-3)
    (found,) = findings(seen(actors=1, cpus=4))
    assert found.advice == ("leave out --inline, with --actors 4",)


@pytest.mark.parametrize(
    "run",
    [seen(0.005, 0.01, 0.0005), seen(0.1, 3.0), seen(cpus=1)],
    ids=["handing over costs as much as it saves", "a slow learner", "one CPU"],
)
def test_where_they_do_not_pay_nothing_is_advised_that_needs_several(run: Evidence) -> None:
    assert findings(run) == []


def test_many_small_steps_are_a_small_batch_there_too() -> None:
    assert findings(seen(0.001, 0.001, 0.01))[0].bottleneck == "small batch"


def test_who_has_the_process_is_waited_for_while_it_stands_still() -> None:
    lines = [*lines_of(10, 0.1, 0.1, 0.001)]
    sample = {"t": 3.13, "firing": 21, "after": "learner", **SAMPLE}
    done = {"t": 3.23, "done": 21, "by": "actor 0", "seconds": 0.1}
    for more, member in (([sample], "actor 0"), ([sample, done], "actor 1")):
        history = History(inline=True).read([*lines, *more])
        history.goes_on(33.0, {})
        run = Evidence(history, {}, TABLE, 2)
        last = run.history.waited_for("learner")
        assert last
        assert last.member == member
        for kinds in run.shares.values():
            assert sum(kinds.values()) == pytest.approx(1.0)


def test_that_it_is_one_is_in_its_configuration(tmp_path: Path) -> None:
    lines = lines_of(10, 0.1, 0.1, 0.001)
    (tmp_path / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for inline, bottleneck in ((True, "one process"), (False, "small batch")):
        (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"inline": inline}))
        assert report(tmp_path).bottleneck == bottleneck
