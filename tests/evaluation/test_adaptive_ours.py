"""What an adaptive run of ours cost, update by update, is read off its journal and its summary."""

import pytest

from evaluation.adaptive_ours import (
    Round,
    command,
    more_measures,
    options_of,
    rounds_of,
    updates_of,
)
from evaluation.rivals.adaptive import KINDS


def sampled(t, version):
    return {"t": t, "firing": 2 * version + 1, "trigger": "actors.sample", "version": version}


def learning(t, version):
    claims = [[0, 0, 8]]
    return {
        "t": t, "firing": 2 * version + 2, "trigger": "learner.update", "version": version,
        "claims": claims,
    }  # fmt: skip


def done(t, by, firing):
    return {"t": t, "done": firing, "by": by, "version": 0}


JOURNAL = [
    sampled(3.0, 0), done(4.0, "actor 0", 1), learning(5.0, 0),
    {"actors": 4, "version": 1}, sampled(7.0, 1), done(7.1, "learner", 2),
    learning(11.0, 1), sampled(12.9, 2), done(13.0, "learner", 4),
]  # fmt: skip
SUMMARY = {
    "actors_by_update": [2, 4],
    "times": {"environment": 4.0, "inference": 2.0, "gather": 0.6, "learn": 3.0},
    "held_cpu_seconds": 12.0,
    "used_cpu_seconds": 6.0,
    "parked_mb_seconds": 100.0,
    "starts": {"clone": {"count": 4}, "restore": {"count": 1}},
}


def test_a_round_goes_from_one_request_for_rows_to_the_next():
    assert rounds_of(JOURNAL) == [Round(3.0, 5.0, 7.0), Round(7.0, 11.0, 13.0)]


def test_a_round_that_nobody_learned_from_is_an_error():
    with pytest.raises(ValueError, match="3 updates began and 2 ended"):
        rounds_of([*JOURNAL, learning(14.0, 2)])


def test_the_kinds_add_up_to_the_total_and_the_totals_to_the_run():
    updates = updates_of(JOURNAL, SUMMARY, 2)
    for update in updates:
        assert sum(getattr(update, kind) for kind in KINDS) == pytest.approx(update.total)
    assert sum(update.total for update in updates) == 13.0


def test_every_kind_is_what_the_run_says():
    first, second = updates_of(JOURNAL, SUMMARY, 2)
    # 6 rounds of 1 s, 2 at a time; 0.1 s a round to gather.
    assert (first.start, first.sample, first.wait) == (3.0, 1.0, 1.0)
    assert (first.transfer, first.learn) == (pytest.approx(0.2), pytest.approx(1.8))
    assert (second.start, second.sample, second.wait) == (0.0, 2.0, 2.0)
    assert (second.transfer, second.learn) == (pytest.approx(0.4), pytest.approx(1.6))


def test_one_slot_has_all_act_one_after_the_other_but_no_longer_than_the_round_took():
    assert [update.sample for update in updates_of(JOURNAL, SUMMARY, 1)] == [2.0, 4.0]
    assert [update.wait for update in updates_of(JOURNAL, SUMMARY, 1)] == [0.0, 0.0]


def test_after_the_last_update_the_bill_is_the_runs():
    first, second = updates_of(JOURNAL, SUMMARY, 2)
    assert (first.held, second.held) == (pytest.approx(4.0), pytest.approx(12.0))
    assert (first.used, second.used) == (pytest.approx(2.0), pytest.approx(6.0))


def test_rounds_are_counted_by_where_the_actors_had_waited():
    found = more_measures(updates_of(JOURNAL, SUMMARY, 2), SUMMARY)
    assert (found["thaws"], found["restores"], found["in_memory"]) == (0, 1, 5)
    assert (found["first_update_s"], found["parked_mb_s"]) == (7.0, 100.0)


def words(tmp_path, *arguments):
    return command(options_of(arguments), tmp_path)


def test_a_run_has_the_steps_for_its_updates(tmp_path):
    found = words(tmp_path, "--schedule", "2:0,4:3", "--count", "5", "--envs", "3", "--steps", "8")
    assert found[found.index("--actors") + 1] == "0:2,3:4"
    assert found[found.index("--total-steps") + 1] == str((3 * 2 + 2 * 4) * 3 * 8)


def test_a_number_that_never_changes_is_no_schedule(tmp_path):
    found = words(tmp_path, "--schedule", "4:0", "--set", "park=freeze")
    assert found[found.index("--actors") + 1] == "4"
    assert "park=freeze" in found
