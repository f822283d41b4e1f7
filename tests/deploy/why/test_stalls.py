"""What took far longer once than it usually does is told as that, not as how a member works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from deploy.why.diagnosis import findings
from deploy.why.evidence import Evidence
from deploy.why.history import History
from deploy.why.stalls import tell_apart

ROUND, UPDATE = 0.1, 0.1


def lines_of(
    rounds: int, sampled: Mapping[int, float], learned: Mapping[int, float]
) -> Iterator[dict[str, Any]]:
    """In turn two actors sample and a learner learns; some rounds and updates take other times."""
    now = 0.1
    for member in ("learner", "actor 0", "actor 1"):
        yield {"t": now, "ready": member, "seconds": 0.1}
    for number in range(rounds):
        first, second = 1 + 2 * number, 2 + 2 * number
        yield {"t": now, "firing": first, "trigger": "actors.sample", "after": "learner"}
        yield {"t": now + ROUND, "done": first, "by": "actor 0", "seconds": ROUND}
        now += (seconds := sampled.get(number, ROUND))
        yield {"t": now, "firing": second, "trigger": "learner.update", "after": "actor 1"}
        yield {"t": now, "done": first, "by": "actor 1", "seconds": seconds}
        now += (seconds := learned.get(number, UPDATE))
        times = {"learn": seconds}
        yield {"t": now, "done": second, "by": "learner", "seconds": seconds, "times": times}


def seen(
    rounds: int, sampled: Mapping[int, float] | None = None,
    learned: Mapping[int, float] | None = None,
) -> Evidence:  # fmt: skip
    """What is known of such a run."""
    history = History({"environment": 1.0}).read(lines_of(rounds, sampled or {}, learned or {}))
    tell_apart(history)
    return Evidence(history, {"actors": 2}, {}, 2, cpus=4, actors_cpu=0.9)


def test_one_round_that_took_long_is_no_slow_environment() -> None:
    run = seen(80, {40: 35.0})
    stall, *others = findings(run)
    assert stall.bottleneck == "stall"
    assert stall.figure.startswith(
        "one round of actor 1 took 35 s, at t = 8.1 s, where one usually takes 0.1 s: 69%"
    )
    assert stall.advice == (
        "see what actor 1 did then: artos logs RUN, and artos logs RUN --log actor-1",
    )
    assert stall.gain == pytest.approx(run.seconds / (run.seconds - 34.9))
    assert run.round == pytest.approx(0.1)
    assert run.sampling * run.seconds == pytest.approx(79 * ROUND)
    assert "one straggler" not in [each.bottleneck for each in others]
    assert sum(run.shares["actor 1"].values()) == pytest.approx(1.0)


def test_so_is_one_update() -> None:
    run = seen(80, learned={40: 35.0})
    assert findings(run)[0].figure.startswith("one update of learner took 35 s, at t = 8.2 s")
    assert run.update == pytest.approx(0.1)


def test_what_takes_long_often_is_how_it_works() -> None:
    """Each tenth round: episodes begin anew, say."""
    run = seen(80, dict.fromkeys(range(5, 80, 10), 35.0))
    assert "stall" not in [each.bottleneck for each in findings(run)]
    assert run.share("stall") == 0.0


@pytest.mark.parametrize(
    "run",
    [seen(80, {0: 35.0}), seen(80, {40: 1.0}), seen(3, {2: 35.0})],
    ids=["the first one, in which all is loaded", "not by much", "too few to say what is usual"],
)
def test_what_is_no_stall(run: Evidence) -> None:
    assert not [each for past in run.history.members.values() for each in past if each.stalled]
