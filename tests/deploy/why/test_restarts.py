"""Time that a death costs is a restart's, not the hand-over's and not the parking's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deploy.why.charging import Charge, chain, shares
from deploy.why.diagnosis import findings
from deploy.why.evidence import Evidence
from deploy.why.history import History

Line = Mapping[str, Any]
KILLED = (
    "process 4711 killed by signal 9 (if no one did that, memory ran out: use fewer actors or "
    "smaller batches)"
)
BEFORE: tuple[Line, ...] = (
    {"t": 0.5, "ready": "learner", "start": "fork", "seconds": 0.2},
    {"t": 0.5, "ready": "actor 0", "start": "fork", "seconds": 0.1},
    {"t": 1.0, "firing": 1, "trigger": "actors.sample", "version": 0, "after": "learner"},
    {"t": 2.0, "firing": 2, "trigger": "learner.update", "version": 0, "after": "actor 0",
     "claims": [[0, 0, 4]]},
    {"t": 2.0, "done": 1, "by": "actor 0", "version": 0, "stop": 4, "seconds": 1.0},
)  # fmt: skip
LEARNED: tuple[Line, ...] = (
    *BEFORE,
    {"t": 3.0, "firing": 3, "trigger": "actors.sample", "version": 1, "after": "learner"},
    {"t": 3.0, "done": 2, "by": "learner", "version": 1, "seconds": 1.0, "times": {"learn": 1.0}},
)


def learner_killed(process: str = "learner") -> list[Line]:
    """At 2.8 s, 0.8 s after it began an update, which is done again from 5 s on."""
    return [
        *BEFORE,
        {"t": 2.8, "queued": 0.1},
        {"died": process, "step": 0, "why": KILLED},
        {"t": 5.0, "ready": "learner", "start": "cold", "seconds": 2.2},
        {"t": 6.0, "done": 2, "by": "learner", "version": 1, "seconds": 1.0,
         "times": {"learn": 1.0}, "cpu": 0.9},
    ]  # fmt: skip


ACTOR_KILLED: tuple[Line, ...] = (
    *LEARNED,
    {"t": 3.6, "queued": 0.1},
    {"died": "actor 0", "step": 6, "why": KILLED},
    {"t": 5.6, "ready": "actor 0", "start": "fork", "seconds": 2.0},
    {"t": 6.0, "firing": 4, "trigger": "learner.update", "version": 1, "after": "actor 0",
     "claims": [[0, 4, 8]]},
    {"t": 6.0, "done": 3, "by": "actor 0", "version": 1, "stop": 8, "seconds": 0.4, "waited": 2.0},
    {"t": 7.0, "done": 4, "by": "learner", "version": 2, "seconds": 1.0, "times": {"learn": 1.0}},
)  # fmt: skip
"""At 3.6 s, when it had sampled for 0.6 s of the second that its rounds take."""
IDLE_KILLED: tuple[Line, ...] = (
    *BEFORE,
    {"died": "actor 0", "step": 4, "why": KILLED},
    {"t": 2.4, "ready": "actor 0", "start": "fork", "seconds": 0.4},
    {"t": 3.0, "firing": 3, "trigger": "actors.sample", "version": 1, "after": "learner"},
    {"t": 3.0, "done": 2, "by": "learner", "version": 1, "seconds": 1.0, "times": {"learn": 1.0}},
    {"t": 4.0, "done": 3, "by": "actor 0", "version": 1, "stop": 8, "seconds": 1.0},
)
KILLED_AFTER_ITS_ROUND: tuple[Line, ...] = (
    *LEARNED,
    {"t": 4.0, "done": 3, "by": "actor 0", "version": 1, "stop": 8, "recovered": True},
    {"died": "actor 0", "step": 8, "why": KILLED},
    {"t": 4.5, "ready": "actor 0", "start": "fork", "seconds": 0.5},
)
KILLED_TWICE: tuple[Line, ...] = (
    *LEARNED,
    {"died": "actor 0", "step": 4, "why": KILLED},
    {"t": 3.4, "blocked": 0.1},
    {"died": "actor 0", "step": 4, "why": KILLED},
    {"t": 5.0, "ready": "actor 0", "start": "fork", "seconds": 0.3},
    {"t": 6.0, "done": 3, "by": "actor 0", "version": 1, "stop": 8, "seconds": 1.0, "waited": 1.6},
)


SERVER_KILLED: tuple[Line, ...] = (
    {"t": 0.4, "ready": "inference", "start": "cold", "seconds": 0.1},
    *LEARNED,
    {"t": 3.6, "died": "inference", "step": 0, "why": KILLED},
    {"t": 5.6, "ready": "inference", "start": "cold", "seconds": 1.9},
    {"t": 6.1, "firing": 4, "trigger": "learner.update", "version": 1, "after": "actor 0",
     "claims": [[0, 4, 8]]},
    {"t": 6.1, "done": 3, "by": "actor 0", "version": 1, "stop": 8, "seconds": 3.1},
    {"t": 7.1, "done": 4, "by": "learner", "version": 2, "seconds": 1.0, "times": {"learn": 1.0}},
)  # fmt: skip
"""At 3.6 s, when the actor that asks it had sampled for 0.6 s of the second that rounds take."""


def seconds_of(
    lines: Sequence[Line], member: str, history: History | None = None
) -> dict[str, float]:
    """Where this member's time went."""
    history = (history or History()).read(lines)
    wall = history.ended - history.ready[member]
    found = {kind: share * wall for kind, share in shares(history)[member].items()}
    return {kind: seconds for kind, seconds in found.items() if seconds > 1e-9}


@pytest.mark.parametrize(
    "lines",
    [
        learner_killed(),
        ACTOR_KILLED,
        IDLE_KILLED,
        KILLED_AFTER_ITS_ROUND,
        KILLED_TWICE,
        SERVER_KILLED,
    ],
    ids=["learner", "actor", "idle actor", "after its round", "twice", "server"],
)
def test_shares_add_up(lines: Sequence[Line]) -> None:
    for kinds in shares(asked().read(lines)).values():
        assert sum(kinds.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("process", ["learner", "learner 1"])
def test_an_update_that_is_made_again_is_no_hand_over(process: str) -> None:
    """Whichever replica of the learner died, all of them begin again."""
    lines = learner_killed(process)
    assert seconds_of(lines, "learner") == pytest.approx(
        {"wait: actor 0": 1.5, "wait: restart": 3.0, "learn": 1.0}
    )
    history = History().read(lines)
    found = chain(history, history.members["learner"][-1], 1.0)
    assert found == pytest.approx(
        {Charge("learn", "learner"): 1.0, Charge("restart", "learner"): 3.0,
         Charge("sample", "actor 0"): 1.0}
    )  # fmt: skip


def test_an_actor_that_is_started_again_was_not_parked() -> None:
    found = seconds_of(ACTOR_KILLED, "actor 0")
    assert found == pytest.approx(
        {"sample": 2.0, "wait: restart": 2.0, "wait: learner": 1.5, "wait: end": 1.0}
    )


def test_who_died_with_nothing_to_do_keeps_nobody_waiting() -> None:
    found = seconds_of(IDLE_KILLED, "actor 0")
    assert found["wait: restart"] == pytest.approx(0.4)
    assert found["wait: learner"] == pytest.approx(0.5 + 0.6)
    history = History().read(IDLE_KILLED)
    whole = chain(history, history.members["actor 0"][-1], 1.0)
    assert [charge for charge in whole if charge.kind == "restart"] == []


def test_a_round_that_was_over_before_its_actor_could_say_so_was_sampled() -> None:
    found = seconds_of(KILLED_AFTER_ITS_ROUND, "actor 0")
    assert found["sample"] == pytest.approx(2.0)
    assert "wait: hand-over" not in found


def test_deaths_in_a_row_are_one_absence() -> None:
    history = History().read(KILLED_TWICE)
    assert history.restarts == {"actor 0": [(3.0, 5.0)]}
    assert history.deaths["actor 0"] == {"actor 0": 2}
    assert seconds_of(KILLED_TWICE, "actor 0")["wait: restart"] == pytest.approx(2.0)


def test_long_before_a_start_it_was_not_dead() -> None:
    """No line may come for as long as a round takes, so the one before it says little."""
    lines = [
        *LEARNED,
        {"died": "actor 0", "step": 6, "why": KILLED},
        {"t": 33.0, "ready": "actor 0", "start": "fork", "seconds": 1.0},
    ]
    assert History().read(lines).restarts == {"actor 0": [(27.0, 33.0)]}


def test_a_death_whose_time_is_known_is_not_moved() -> None:
    """Also where it was long before the start: no node had a free slot, say."""
    lines = [
        *LEARNED,
        {"t": 4.0, "died": "actor 0", "step": 6, "why": KILLED},
        {"t": 33.0, "ready": "actor 0", "start": "fork", "seconds": 1.0},
    ]
    assert History().read(lines).restarts == {"actor 0": [(4.0, 33.0)]}


SCALED: Line = {"actors": 1, "version": 1}
SECOND_ACTOR: tuple[Line, ...] = (
    *LEARNED[:2], {"t": 0.5, "ready": "actor 1", "start": "fork", "seconds": 0.1}, *LEARNED[2:],
    {"t": 3.5, "done": 3, "by": "actor 1", "version": 1, "stop": 4, "seconds": 0.5},
)  # fmt: skip
BACK: tuple[Line, ...] = (
    {"actors": 2, "version": 1},
    {"t": 30.0, "firing": 9, "trigger": "actors.sample", "version": 1, "after": "learner"},
    {"t": 31.0, "ready": "actor 1", "start": "fork", "seconds": 1.0},
    {"t": 32.0, "done": 9, "by": "actor 1", "version": 1, "stop": 8, "seconds": 1.0, "waited": 1.0},
)


DIED: Line = {"died": "actor 1", "step": 4, "why": KILLED}


@pytest.mark.parametrize(
    "lines",
    [(SCALED, {"t": 4.0, **DIED}), ({"t": 4.0, **DIED}, SCALED), (SCALED, DIED)],
    ids=["parked when it died", "parked before it was back", "of an earlier version"],
)
def test_an_actor_that_nobody_needs_is_not_waited_for(lines: Sequence[Line]) -> None:
    """Nobody starts it again until it takes part again."""
    history = History().read([*SECOND_ACTOR, *lines, *BACK])
    assert history.restarts == {"actor 1": [(30.0, 31.0)]}
    assert shares(history)["actor 1"]["wait: restart"] * (32.0 - 0.5) == pytest.approx(1.0)


def asked(**fields: Any) -> History:
    """That of a run whose actors ask a server."""
    return History(servers=("inference",), **fields)


def test_while_a_server_is_started_again_those_who_ask_it_do_not_sample() -> None:
    found = seconds_of(SERVER_KILLED, "actor 0", asked())
    assert found == pytest.approx(
        {"sample": 2.1, "wait: restart": 2.0, "wait: learner": 1.5, "wait: end": 1.0}
    )
    history = asked().read(SERVER_KILLED)
    whole = chain(history, history.members["learner"][-1], 1.0)
    assert whole == pytest.approx(
        {Charge("learn", "learner"): 2.0, Charge("restart", "inference"): 2.0,
         Charge("sample", "actor 0"): 2.1}
    )  # fmt: skip


def test_who_asks_a_server_rarely_was_kept_for_as_long_as_its_round_was_longer() -> None:
    """It was over 1.5 s after it began, where such rounds take 1 s: it hardly asked."""
    lines = [dict(line) for line in SERVER_KILLED]
    lines[-2] |= {"seconds": 1.5, "t": 6.5}
    assert seconds_of(lines, "actor 0", asked())["wait: restart"] == pytest.approx(0.5)


@pytest.mark.parametrize(("actors", "seconds"), [([0], 2.0), ([1], 0.0), ([], 0.0), (None, 0.0)])
def test_on_a_cluster_only_those_wait_whose_node_it_was(
    actors: list[int] | None, seconds: float
) -> None:
    """Earlier versions of ARTOS did not say whose it was."""
    lines = [dict(line) for line in SERVER_KILLED]
    (died,) = (line for line in lines if "died" in line)
    died |= {} if actors is None else {"asked_by": actors}
    found = seconds_of(lines, "actor 0", asked(far=True))
    assert found.get("wait: restart", 0.0) == pytest.approx(seconds)
    assert sum(found.values()) == pytest.approx(6.6)


def test_of_a_resumed_run_earlier_deaths_do_not_count() -> None:
    again = [*ACTOR_KILLED, {"t": 0.0, "began": 9.5}, *LEARNED]
    history = History().read(again)
    assert not history.restarts
    assert not history.deaths
    assert shares(history) == shares(History().read(LEARNED))


def test_a_journal_that_is_read_from_a_death_on_begins_with_the_next_line() -> None:
    history = History().read(ACTOR_KILLED[8:])
    assert history.began == 5.6
    for kinds in shares(history).values():
        assert sum(kinds.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("lines", "figure", "log"),
    [
        (learner_killed(), "learner died 1 x, and was away for 2.2 s", "learner"),
        (learner_killed("learner 1"), "learner died 1 x, and was away for 2.2 s", "learner-1"),
        (ACTOR_KILLED, "actor 0 died 1 x, and was away for 2 s", "actor-0"),
        (SERVER_KILLED, "inference died 1 x, and was away for 2 s", "inference"),
    ],
    ids=["learner", "replica", "actor", "server"],
)
def test_it_is_named_and_says_where_to_look(lines: Sequence[Line], figure: str, log: str) -> None:
    table = {"type": "triggers.data_key:DataKeyTrigger", "fields": {"n": None, "max_lag": 0}}
    run = Evidence(asked().read(lines), {}, {"learner.update": table}, 1)
    first, *others = findings(run)
    assert first.bottleneck == "restarts"
    assert first.figure.endswith(figure)
    assert first.advice[0].endswith(f"artos logs RUN --log {log}")
    assert "memory" in first.advice[1]
    assert not {"small batch", "parked too eagerly"} & {each.bottleneck for each in others}
