"""What an adaptive run of ours cost, update by update, is read off its journal and its summary."""

import pytest

from evaluation.elasticity.adaptive import KINDS
from evaluation.elasticity.artos_adaptive import (
    Round,
    command,
    more_measures,
    options_of,
    rounds_of,
    updates_of,
)


def sampled(t, version):
    return {"t": t, "firing": 2 * version + 1, "trigger": "actors.sample", "version": version}


def learning(t, version):
    claims = [[0, 0, 8]]
    return {
        "t": t, "firing": 2 * version + 2, "trigger": "learner.update", "version": version,
        "claims": claims,
    }  # fmt: skip


def acted(t, version, actor, seconds):
    return {"t": t, "done": 2 * version + 1, "by": f"actor {actor}", "seconds": seconds}


def learned(t, version, gather, learn):
    times = {"gather": gather, "learn": learn, "wait": 9.0}
    return {
        "t": t, "done": 2 * version + 2, "by": "learner", "seconds": gather + learn, "times": times
    }  # fmt: skip


def ready(t, actor):
    return {"t": t, "ready": f"actor {actor}", "start": "clone", "seconds": 0.5}


JOURNAL = [
    ready(2.0, 0), sampled(3.0, 0), ready(3.25, 1), acted(4.0, 0, 0, 1.0), acted(5.0, 0, 1, 1.5),
    learning(5.0, 0), {"actors": 3, "version": 1}, sampled(7.0, 1), learned(7.1, 0, 0.25, 1.5),
    ready(8.0, 3), acted(9.0, 1, 0, 1.0), acted(10.0, 1, 1, 2.0), ready(10.5, 2),
    learning(11.0, 1), acted(11.1, 1, 2, 0.5), sampled(12.9, 2), learned(13.0, 1, 0.5, 1.25),
]  # fmt: skip
SUMMARY = {
    "actors_by_update": [[1, 2], [1, 3]],
    "usage": {
        "cpu_seconds_held": 12.0,
        "cpu_seconds_used": 6.0,
        "parked_mb_seconds": 100.0,
        "device_seconds_held": 3.5,
    },
    "starts": {"clone": {"count": 4}, "restore": {"count": 1}},
}


def test_a_round_goes_from_one_request_for_rows_to_the_next():
    assert rounds_of(JOURNAL) == [
        Round(3.0, 3.25, 5.0, 7.0, (1.0, 1.5), 1.75, 0.25),
        Round(7.0, 10.5, 11.0, 13.0, (1.0, 2.0, 0.5), 1.75, 0.5),
    ]


def test_a_round_that_nobody_learned_from_is_an_error():
    with pytest.raises(ValueError, match="3 updates began and 2 ended"):
        rounds_of([*JOURNAL, learning(14.0, 2)])


def test_the_kinds_add_up_to_the_total_and_the_totals_to_the_run():
    updates = updates_of(JOURNAL, SUMMARY, 2)
    for update in updates:
        assert sum(getattr(update, kind) for kind in KINDS) == pytest.approx(update.total)
    assert [update.total for update in updates] == [7.0, 6.0]


def test_every_kind_is_what_was_measured_in_that_update():
    first, second = updates_of(JOURNAL, SUMMARY, 2)
    assert (first.start, first.sample) == (3.25, 1.25)
    assert (first.transfer, first.learn, first.wait) == (0.25, 1.5, 0.75)
    # The last of its actors was ready after 3.5 s; 1.75 s is how long the two slots sampled.
    assert (second.start, second.sample) == (2.25, 1.75)
    assert (second.transfer, second.learn, second.wait) == (0.5, 1.25, 0.25)


def test_one_slot_has_all_act_one_after_the_other_but_no_longer_than_the_round_took():
    assert [update.sample for update in updates_of(JOURNAL, SUMMARY, 1)] == [2.0, 3.5]


def test_a_round_whose_seconds_nobody_knows_counts_as_waiting():
    recovered = {"t": 5.0, "done": 1, "by": "actor 1", "recovered": True}
    journal = [recovered if entry == acted(5.0, 0, 1, 1.5) else entry for entry in JOURNAL]
    first = updates_of(journal, SUMMARY, 2)[0]
    assert (first.actors, first.sample) == (2, 0.5)
    assert sum(getattr(first, kind) for kind in KINDS) == first.total


def test_after_the_last_update_the_bill_is_the_runs():
    first, second = updates_of(JOURNAL, SUMMARY, 2)
    assert (first.held, second.held) == (pytest.approx(4.0), pytest.approx(12.0))
    assert (first.used, second.used) == (pytest.approx(2.5), pytest.approx(6.0))


def test_rounds_are_counted_by_where_the_actors_had_waited():
    found = more_measures(updates_of(JOURNAL, SUMMARY, 2), SUMMARY)
    assert (found["thaws"], found["restores"], found["in_memory"]) == (0, 1, 4)
    assert (found["first_update_s"], found["parked_mb_s"]) == (7.0, 100.0)
    assert found["held_device_s"] == 3.5


def words(*arguments):
    return command(options_of(arguments))


def test_a_run_has_the_steps_for_its_updates():
    found = words("--schedule", "2:0,4:3", "--count", "5", "--envs", "3", "--steps", "8")
    assert found[found.index("--actors") + 1] == "0:2,3:4"
    assert found[found.index("--total-steps") + 1] == str((3 * 2 + 2 * 4) * 3 * 8)


def test_a_number_that_never_changes_is_no_schedule():
    found = words("--schedule", "4:0", "--set", "park=freeze")
    assert found[found.index("--actors") + 1] == "4"
    assert "park=freeze" in found
