"""Actors on nodes, without nodes: what executors are told, what counts when, who goes where."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from named import LEARNER
from remote_head import ONE, STEPS, TWO, Head, sample

from artos.errors import BadMessage
from artos.protocol import control, steering
from artos.protocol.data import Nudge
from artos.protocol.invocations import Done, Failed, Ready
from artos.protocol.message import Message, Restarted
from artos.specs.members import ACTORS, Member
from artos.system.exit_report import ExitReport
from head.run.remote.placement_view import PlacementView


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_who_waits_for_what_is_said_in_short_however_many_they_are() -> None:
    nowhere: Any = SimpleNamespace(is_placed=False, node="")
    actors = {Member(ACTORS, number): nowhere for number in range(1_000)}
    nodes: Any = SimpleNamespace(open=())
    view = PlacementView(actors, nodes, lambda node: 0.0, lambda actor: "")
    assert view.waits(range(7)) == "a node with a free slot (actors 0, 1, 2, 3, 4, 5, 6)"
    shown = "a node with a free slot (actors 0, 1, 2, 3, 4, 5, 994 more)"
    assert view.waits(range(1_000)) == shown


def test_calls_wait_for_a_place_and_then_follow_the_start(head: Head) -> None:
    head.remote.start(ONE)
    head.call(ONE, sample(7, STEPS))
    assert head.said() == []
    assert head.remote.placement_view.waits_for_slot(ONE)
    assert head.remote.placement_view.unplaced(ONE) == "a node with a free slot"
    head.place({0: "w1"})
    assert head.remote.placement_view.unplaced(ONE) == "the executor on w1"
    head.up("w1")
    assert head.said() == [
        ("w1", steering.Start(ONE, 1, 0)),
        ("w1", steering.Call(ONE, sample(7, STEPS), 0)),
    ]
    assert head.remote.placement_view.unplaced(ONE) == ""
    assert not head.remote.placement_view.waits_for_slot(ONE)


def test_only_calls_that_bind_wait_for_weights(head: Head) -> None:
    head.begin()
    head.call(ONE, sample(1, STEPS))
    head.published = 5
    head.call(ONE, sample(2, 2 * STEPS, bind=False))
    head.call(ONE, sample(3, 3 * STEPS))
    assert [message.version for _, message in head.said()] == [0, -1, 5]


def test_a_new_process_never_samples_with_older_weights_than_there_are(head: Head) -> None:
    """It has none, so it binds some; those of its node may be older than what it had elsewhere."""
    head.begin()
    for version in (5, 6):
        head.published = version
        head.call(ONE, sample(version, STEPS, bind=False))
        head.call(ONE, sample(version, STEPS, bind=False))
        calls = [message for _, message in head.said() if isinstance(message, steering.Call)]
        assert [call.version for call in calls] == [version, -1]
        head.remote.start(ONE)
    head.published = 7
    head.call(TWO, sample(7, STEPS))
    head.done("w2", TWO, 7, STEPS)
    head.arrive(1, STEPS)
    head.reports()
    head.said()
    head.place({0: "w1", 1: "w1"})
    head.call(TWO, sample(8, 2 * STEPS, bind=False))
    head.remote.heard("w2", steering.Packed(1, "cannot pickle 'lock' object"))
    head.reports()
    assert ("w1", steering.Call(TWO, sample(8, 2 * STEPS, bind=False), 7)) in head.said()


def test_actors_begin_once_those_that_make_them_are_warm(head: Head) -> None:
    head.remote.heard("w1", steering.ExecutorUp("w1", 1, 2, warm=False))
    head.place({0: "w1"})
    head.remote.start(ONE)
    assert head.said() == []
    assert head.remote.placement_view.unplaced(ONE) == "the executor on w1"
    head.remote.heard("w1", steering.ExecutorNews({"cpu_seconds_used": 2.0}))
    head.remote.heard("w1", steering.ExecutorUp("w1", 1, 2))
    assert [type(message) for _, message in head.said()] == [steering.Start]
    assert head.remote.nodes.usage().cpu_seconds_used == 2.0


def test_one_that_is_not_warm_is_closed_with_the_others(head: Head) -> None:
    head.remote.heard("w1", steering.ExecutorUp("w1", 1, 2, warm=False))
    head.remote.close(hand_over=True)
    assert head.said() == [("w1", steering.CloseExecutor(hand_over=True))]
    head.remote.heard("w1", steering.ExecutorUp("w1", 1, 2))
    assert head.said() == [], "it has been told"
    assert head.remote.nodes.open == ("w1",)


def test_a_node_whose_executor_never_was_warm_had_no_actors(head: Head) -> None:
    for node, warm in (("w1", False), ("w2", True)):
        head.remote.heard(node, steering.ExecutorUp(node, 1, 2, warm=warm))
    assert head.remote.nodes.seen == ("w2",)


def test_an_answer_counts_once_its_rows_are_there(head: Head) -> None:
    head.begin()
    head.call(ONE, sample(7, STEPS))
    head.done("w1", ONE, 7, STEPS)
    assert head.reports() == []
    head.arrive(0, STEPS - 1)
    assert head.reports() == []
    head.arrive(0, STEPS)
    assert head.reports() == [(ONE, Done(7, 0))]
    assert head.reports() == []


def test_last_words_come_before_the_death(head: Head) -> None:
    head.begin()
    head.call(ONE, sample(7, STEPS))
    head.done("w1", ONE, 7, STEPS)
    head.remote.heard("w1", steering.Died(ONE, 1, "killed", None, False, False, STEPS))
    assert head.reports() == []
    head.arrive(0, STEPS)
    (first, (member, death)) = head.reports()
    assert first == (ONE, Done(7, 0))
    assert member == ONE
    assert isinstance(death, ExitReport)
    assert "w1" in death.why
    assert not death.own


def test_who_restarts_at_its_place_keeps_its_term(head: Head) -> None:
    head.begin()
    head.remote.end(ONE)
    head.remote.start(ONE)
    assert head.said() == [("w1", steering.End(ONE)), ("w1", steering.Start(ONE, 1, 0))]


def test_a_lost_node_means_death_loss_and_a_new_term(head: Head) -> None:
    head.begin()
    head.call(TWO, sample(7, 2 * STEPS))
    head.arrive(1, STEPS + 2)
    head.remote.heard("w2", steering.ExecutorNews({}, (), {1: 2 * STEPS}))
    head.said()
    head.place({0: "w1", 1: "w1"}, "w2")
    assert head.lost == [(1, STEPS, "w2")]
    ((member, death),) = head.reports()
    assert member == TWO
    assert isinstance(death, ExitReport)
    assert not death.own
    assert head.said() == [], "nothing is told before the coordinator has decided"
    head.remote.end(TWO)
    head.remote.start(TWO)
    head.call(TWO, sample(7, 2 * STEPS))
    assert head.said() == [
        ("w1", steering.Start(TWO, 2, STEPS)),
        ("w1", steering.Call(TWO, sample(7, 2 * STEPS), 0)),
    ]
    assert head.blocks[1].written == STEPS
    head.done("w2", TWO, 7, 2 * STEPS, term=1)
    head.done("w1", TWO, 7, 2 * STEPS, term=1)
    head.arrive(1, 2 * STEPS)
    assert head.reports() == [], "what an older place said is void"


def test_nobody_starts_before_the_replay_buffer_knows_the_term(head: Head) -> None:
    head.begin()
    head.adopts = False
    head.place({0: "w1", 1: "w1"}, "w2")
    list(head.reports())
    head.remote.end(TWO)
    head.remote.start(TWO)
    head.remote.step()
    assert head.said() == []
    assert head.remote.placement_view.unplaced(TWO) == "the replay buffer"
    head.adopt()
    head.remote.step()
    assert head.said() == [("w1", steering.Start(TWO, 2, 0))]


def leaves(head: Head) -> list[tuple[str, Message]]:
    """Actor 1 cannot say what it holds, and begins anew; what is said then."""
    assert head.said() == [("w2", steering.Pack(TWO, 1, image=False))]
    head.remote.heard("w2", steering.Packed(1, "cannot pickle 'lock' object"))
    head.reports()
    return head.said()


def test_a_move_waits_until_nothing_is_under_way(head: Head) -> None:
    head.begin()
    head.call(TWO, sample(7, STEPS))
    head.said()
    head.place({0: "w1", 1: "w1"})
    head.call(TWO, sample(8, 2 * STEPS))
    head.done("w2", TWO, 7, STEPS)
    assert head.reports() == []
    assert head.said() == []
    head.arrive(1, STEPS)
    assert head.reports() == [(TWO, Done(7, 0))]
    assert leaves(head) == [
        ("w2", steering.End(TWO)),
        ("w1", steering.Start(TWO, 2, STEPS)),
        ("w1", steering.Call(TWO, sample(8, 2 * STEPS), 0)),
    ]
    assert head.moved == [TWO]
    assert head.lost == []


def test_a_move_waits_for_rows_and_words_that_are_on_their_way(head: Head) -> None:
    head.begin()
    head.remote.heard("w2", steering.ExecutorNews({}, (), {1: STEPS}))
    head.place({0: "w1", 1: "w1"})
    assert head.reports() == []
    assert head.said() == []
    head.remote.heard("w2", steering.Died(TWO, 1, "killed", None, False, False, STEPS + 1))
    head.arrive(1, STEPS)
    assert head.reports() == []
    assert head.said() == []
    head.arrive(1, STEPS + 1)
    ((member, _),) = head.reports()
    assert member == TWO
    assert leaves(head)[0] == ("w2", steering.End(TWO))


def test_a_move_waits_until_what_was_said_is_heard(head: Head) -> None:
    head.begin()
    head.remote.heard("w2", steering.ActorReport(TWO, 1, Ready(0.5), 0))
    head.place({0: "w1", 1: "w1"})
    assert head.said() == []
    assert head.reports() == [(TWO, Ready(0.5))]
    assert leaves(head)[0] == ("w2", steering.End(TWO))


def test_an_actor_works_where_it_is_until_it_can_where_it_is_to_be(head: Head) -> None:
    head.begin()
    head.remote.placed(control.Placed({0: "w1", 1: "w3"}, relief=True))
    head.call(TWO, sample(7, STEPS))
    assert head.said() == [("w2", steering.Call(TWO, sample(7, STEPS), 0))]
    head.up("w3")
    assert head.said() == []
    head.done("w2", TWO, 7, STEPS)
    head.arrive(1, STEPS)
    head.reports()
    assert leaves(head) == [("w2", steering.End(TWO)), ("w3", steering.Start(TWO, 2, STEPS))]


def test_it_goes_to_where_it_is_to_be_when_it_loses_its_node(head: Head) -> None:
    head.begin()
    head.place({0: "w1", 1: "w3"})
    head.remote.heard("w2", Restarted())
    head.reports()
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.remote.placement_view.unplaced(TWO) == "the executor on w3"
    head.up("w3")
    assert head.said()[-1] == ("w3", steering.Start(TWO, 2, 0))


def test_it_stays_if_it_is_to_stay_after_all(head: Head) -> None:
    head.begin()
    head.remote.placed(control.Placed({0: "w1", 1: "w3"}, relief=True))
    head.place({0: "w1", 1: "w2"})
    head.up("w3")
    assert head.said() == []


def test_a_move_that_is_taken_back(head: Head) -> None:
    head.begin()
    head.call(TWO, sample(7, STEPS))
    head.place({0: "w1", 1: "w1"})
    head.call(TWO, sample(8, 2 * STEPS))
    head.said()
    head.place({0: "w1", 1: "w2"})
    assert head.said() == [("w2", steering.Call(TWO, sample(8, 2 * STEPS), 0))]


def test_a_node_lost_during_a_move(head: Head) -> None:
    head.begin()
    head.call(TWO, sample(7, STEPS))
    head.place({0: "w1", 1: "w1"})
    head.place({0: "w1", 1: "w1"}, "w2")
    assert [member for member, _ in head.reports()] == [TWO]
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.said()[-1] == ("w1", steering.Start(TWO, 2, 0))


def test_an_executor_that_was_started_anew_has_lost_its_actors(head: Head) -> None:
    head.begin()
    head.up("w2")
    assert [member for member, _ in head.reports()] == [TWO]
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.said() == [("w2", steering.Start(TWO, 2, 0))]


def test_a_closed_executor_reports_its_last_usage(head: Head) -> None:
    head.begin()
    start = {"cold": {"count": 2, "median_s": 1.0, "p95_s": 2.0}}
    head.remote.heard("w1", steering.ExecutorNews({"starts": start, "cpu_seconds_used": 1.0}))
    head.remote.heard("w2", steering.ExecutorClosed({"starts": start, "cpu_seconds_used": 2.5}))
    usage = head.remote.nodes.usage()
    assert usage.cpu_seconds_used == 3.5
    assert usage.starts["cold"] == {"count": 4, "median_s": 1.0, "p95_s": 2.0}
    assert head.remote.nodes.open == ("w1",)
    assert head.remote.nodes.seen == ("w1", "w2")


def test_who_failed_is_not_also_lost_with_its_node(head: Head) -> None:
    head.begin()
    head.remote.heard("w2", steering.ActorReport(TWO, 1, Failed(7, 0, "ValueError: no"), 0))
    head.place({0: "w1", 1: "w1"}, "w2")
    reports = head.remote.reports()
    assert next(reports) == (TWO, Failed(7, 0, "ValueError: no"))
    head.remote.end(TWO)  # as the coordinator does then
    assert list(reports) == []


def test_who_was_put_away_is_not_started_at_its_next_place(head: Head) -> None:
    head.begin()
    head.remote.retire(TWO)
    assert head.said() == [("w2", steering.Retire(TWO))]
    head.place({0: "w1", 1: "w1"})
    assert head.said() == [("w2", steering.End(TWO))]
    head.remote.prepare(TWO)
    assert head.said() == [("w1", steering.Prepare(TWO, 2, 0))]


def test_who_is_put_away_on_its_way_does_first_what_it_was_asked_for(head: Head) -> None:
    head.begin()
    head.call(TWO, sample(7, STEPS))
    head.place({0: "w1", 1: "w1"})
    head.call(TWO, sample(8, 2 * STEPS))
    head.remote.retire(TWO)
    head.done("w2", TWO, 7, STEPS)
    head.arrive(1, STEPS)
    head.said()
    assert head.reports() == [(TWO, Done(7, 0))]
    assert head.moved == [TWO]
    assert head.said() == [
        ("w2", steering.End(TWO)),
        ("w1", steering.Prepare(TWO, 2, STEPS)),
        ("w1", steering.Call(TWO, sample(8, 2 * STEPS), 0)),
        ("w1", steering.Retire(TWO)),
    ]
    assert not head.remote.placement_view.waits_for_slot(TWO)


def test_who_lost_its_node_goes_only_where_the_head_said_last(head: Head) -> None:
    head.begin()
    head.call(TWO, sample(7, STEPS))
    head.place({0: "w1"})
    head.up("w2")  # the executor that it was to leave for nowhere was started anew
    list(head.reports())
    head.remote.end(TWO)
    head.remote.start(TWO)
    head.said()
    assert head.remote.placement_view.unplaced(TWO) == "a node with a free slot"
    assert head.said() == []


def test_a_silent_node_is_why_nobody_answers(head: Head) -> None:
    head.begin()
    head.call(ONE, sample(7, STEPS))
    assert not head.remote.placement_view.waits_for_slot(ONE)
    head.quiet["w1"] = 8.0
    assert head.remote.placement_view.waits_for_slot(ONE)
    head.quiet["w1"] = 0.1
    head.remote.heard("w1", steering.ExecutorNews({}, waits_for_slot=(ONE,)))
    assert head.remote.placement_view.waits_for_slot(ONE)


def test_an_executor_that_comes_while_the_run_closes_is_closed(head: Head) -> None:
    head.begin()
    head.remote.close()
    head.said()
    head.up("w3")
    assert head.said() == [("w3", steering.CloseExecutor())]


def test_a_closing_run_only_keeps_books(head: Head) -> None:
    head.begin()
    head.remote.close()
    assert head.said() == [("w1", steering.CloseExecutor()), ("w2", steering.CloseExecutor())]
    head.remote.heard("w1", steering.ExecutorClosed({}))
    head.remote.heard("w2", steering.ExecutorClosed({}))
    assert head.reports() == []
    assert head.remote.nodes.open == ()


def test_messages_of_nobody_change_nothing(head: Head) -> None:
    head.begin()
    head.remote.heard("w9", steering.ActorReport(ONE, 1, Ready(0.0), 0))
    head.remote.heard("w2", steering.ActorReport(ONE, 1, Ready(0.0), 0))
    head.remote.heard("w9", steering.ExecutorUp("w9", 2, 1))
    assert head.reports() == []
    assert head.said() == []
    assert head.remote.nodes.open == ("w1", "w2")


@pytest.mark.parametrize(
    "message",
    [
        steering.ActorReport(Member(ACTORS, 98), 1, Ready(0.0), 0),
        steering.Died(LEARNER, 1, "why", None, True, False, 0),
        steering.ExecutorNews({"cpu_seconds_held": "many"}),
        steering.ExecutorNews({"starts": {"cold": {"count": 3}}}),
        steering.ExecutorClosed({"cpu_seconds_used": None}),
        Nudge(),
    ],
)
def test_messages_that_make_no_sense_change_nothing(head: Head, message: Message) -> None:
    head.begin()
    with pytest.raises(BadMessage):
        head.remote.heard("w1", message)
    assert head.reports() == []
    assert head.said() == []
    assert head.remote.nodes.open == ("w1", "w2")
    head.remote.nodes.usage()


def test_an_actor_in_use_is_prepared_where_it_is(head: Head) -> None:
    """Its executor has it restored; its calls, its term and its process stay as they are."""
    head.begin()
    head.call(ONE, sample(1, STEPS))
    head.done("w1", ONE, 1, STEPS)
    head.arrive(0, STEPS)
    head.reports()
    head.said()
    head.remote.prepare(ONE)
    assert head.said() == [("w1", steering.Prepare(ONE, 1, 0))]
    head.published = 3
    head.call(ONE, sample(2, 2 * STEPS, bind=False))
    assert head.said() == [("w1", steering.Call(ONE, sample(2, 2 * STEPS, bind=False), -1))]


def test_an_actor_that_leaves_or_has_no_place_is_not_restored(head: Head) -> None:
    head.begin()
    head.call(ONE, sample(1, STEPS))
    head.said()
    head.place({0: "w2", 1: "w2"})
    head.remote.prepare(ONE)
    assert head.said() == []
    head.place({0: "w2", 1: ""}, "w1")
    head.reports()
    head.remote.prepare(ONE)
    assert not [told for told in head.said() if isinstance(told[1], steering.Prepare)]
