"""Who is there: greetings, heartbeats, names that are taken, nodes that are gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.clock import ManualClock
from artos.errors import Refused
from artos.protocol.control import PROTOCOL, Hello, Load
from head.daemon.roster import Known, Roster

VERSION = "1.2.3"


def hello(node: str, **changes: object) -> Hello:
    facts = {"protocol": PROTOCOL, "version": VERSION, "slots": 2} | changes
    return Hello(node, **facts)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def roster(clock: ManualClock) -> Roster:
    return Roster(VERSION, clock, deadline=15.0)


def names(roster: Roster) -> list[str]:
    return [node.name for node in roster if node.alive]


def test_who_greets_belongs(roster: Roster) -> None:
    node = roster.admit("w1.a", hello("w1", slots=4))
    assert (node.slots, node.usable, roster.of("w1.a")) == (4, True, node)


@pytest.mark.parametrize("change", [{"protocol": PROTOCOL + 1}, {"version": "1.2.4"}])
def test_another_version_is_refused_and_both_are_named(change, roster: Roster) -> None:
    with pytest.raises(Refused) as refused:
        roster.admit("w1.a", hello("w1", **change))
    words = str(refused.value)
    assert VERSION in words
    assert str(PROTOCOL) in words
    assert all(str(value) in words for value in change.values())
    assert names(roster) == []


def test_more_devices_than_a_machine_can_have_are_not_believed(roster: Roster) -> None:
    """A node that claims any number would carry all runs."""
    with pytest.raises(Refused, match="devices for 99999 learners"):
        roster.admit("w1.a", hello("w1", devices="cpu:a=99999"))
    assert roster.admit("w1.a", hello("w1", devices="cpu:a=2,cuda:0,?=x")).devices


def test_silence_for_longer_than_the_deadline_is_death(roster: Roster, clock: ManualClock) -> None:
    roster.admit("w1.a", hello("w1"))
    roster.admit("w2.a", hello("w2"))
    clock.advance(10)
    roster.heard({"w1.a": 0.5, "w2.a": 10.0, "user.x": 0.0})
    clock.advance(10)
    assert [node.name for node in roster.late()] == ["w2"]
    assert roster.late() == []
    assert names(roster) == ["w1"]
    assert roster.of("w2.a") is None


def test_nodes_were_not_silent_while_the_head_was_stopped(
    roster: Roster, clock: ManualClock
) -> None:
    roster.admit("w1.a", hello("w1"))
    clock.advance(60)
    roster.excuse(59.0)
    assert roster.late() == []
    clock.advance(15)
    assert [node.name for node in roster.late()] == ["w1"]


def test_a_daemon_whose_connection_was_closed_is_gone_unless_it_comes_back(
    roster: Roster, clock: ManualClock
) -> None:
    for name in ("w1", "w2", "w3"):
        roster.admit(f"{name}.a", hello(name))
    clock.advance(5)
    roster.heard({"w1.a": 0.5, "w2.a": 0.5, "w3.a": 5.0}, {"w1.a", "w2.a", "w3.a"})
    clock.advance(1)
    roster.heard({"w1.a": 1.5, "w2.a": 0.1, "w3.a": 6.0}, {"w1.a", "w3.a"})
    assert roster.late() == []
    clock.advance(2)
    roster.heard({"w1.a": 3.5, "w2.a": 0.1, "w3.a": 8.0}, {"w1.a", "w3.a"})
    (gone,) = roster.late()
    assert (gone.name, roster.why_late(gone)) == ("w1", "its worker has ended")
    clock.advance(8)
    roster.heard({"w2.a": 0.1, "w3.a": 16.0}, {"w3.a"})
    (gone,) = roster.late()
    assert gone.name == "w3", "cut off by its network: the deadline"
    assert roster.why_late(gone) == "not heard for 15 s"


def test_a_name_is_taken_while_its_owner_lives(roster: Roster, clock: ManualClock) -> None:
    roster.admit("w1.a", hello("w1"))
    with pytest.raises(Refused, match="w1 is alive"):
        roster.admit("w1.b", hello("w1"))
    clock.advance(16)
    roster.late()
    assert roster.admit("w1.b", hello("w1")).peer == "w1.b"


def test_a_daemon_that_replaces_a_dead_one_is_welcome_at_once(roster: Roster) -> None:
    roster.admit("w1.a", hello("w1"))
    assert roster.admit("w1.b", hello("w1", replaces="w1.a")).peer == "w1.b"
    assert roster.of("w1.a") is None


def test_greeting_twice_is_fine(roster: Roster) -> None:
    roster.admit("w1.a", hello("w1"))
    roster.leave("w1", "drained")
    again = roster.admit("w1.a", hello("w1"))
    assert again.leaves == "drained"
    assert names(roster) == ["w1"]


def test_a_daemon_started_anew_is_no_longer_drained(roster: Roster) -> None:
    roster.admit("w1.a", hello("w1"))
    roster.leave("w1", "drained")
    assert roster.admit("w1.b", hello("w1", replaces="w1.a")).usable


def test_goodbye_frees_the_name(roster: Roster) -> None:
    roster.admit("w1.a", hello("w1"))
    roster.load("w1.a", Load({}, 0.5, 0.5))
    roster.remove("w1")
    assert names(roster) == []
    assert roster.admit("w1.b", hello("w1")).load == Load()


def test_a_restarted_head_waits_for_its_nodes(roster: Roster, clock: ManualClock) -> None:
    roster.admit("w1.a", hello("w1", runs_per_slot=3))
    roster.admit("w2.a", hello("w2"))
    roster.leave("w2", "drained")
    clock.advance(3600)
    after = Roster(VERSION, clock, deadline=15.0)
    known = (Known("w1", 2, runs_per_slot=3), Known("w2", 2, "drained"))
    after.expect(known)
    assert tuple(each.known for each in roster) == tuple(each.known for each in after) == known
    assert [node.most_runs for node in after] == [6, 2]
    clock.advance(14)
    assert after.late() == []
    assert after.admit("w1.a", hello("w1")).usable
    assert not after.admit("w2.a", hello("w2")).usable
    clock.advance(16)
    assert {node.name for node in after.late()} == {"w1", "w2"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["hello", "wait", "late"]))))
def test_every_name_has_one_living_daemon_at_most(steps) -> None:
    clock = ManualClock()
    roster = Roster(VERSION, clock, deadline=2.0)
    for number, (name, step) in enumerate(steps):
        if step == "hello":
            try:
                roster.admit(f"{name}.{number}", hello(name))
            except Refused:
                assert name in names(roster)
        elif step == "wait":
            clock.advance(1.0)
        else:
            assert all(not node.alive for node in roster.late())
        alive = names(roster)
        assert len(alive) == len(set(alive))
        assert all(roster.of(node.peer) is node for node in roster if node.alive)


def test_only_some_of_the_gone_are_remembered(roster: Roster, clock: ManualClock) -> None:
    for number in range(300):
        roster.admit(f"w{number}.a", hello(f"w{number}"))
    clock.advance(16)
    assert len(roster.late()) == 300
    assert len(list(roster)) == 100


def test_a_clock_that_is_wrong_is_told_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Not what a message shows that waited for its connection, or a second more or less."""
    roster = Roster(VERSION, clock, wall=lambda: 1_000.0 + clock.now())
    roster.admit("w1.a", hello("w1"))

    def says(ahead: float, after: float = 1.0) -> float:
        clock.advance(after)
        roster.load("w1.a", Load(wall=1_000.0 + clock.now() + ahead))
        (node,) = roster
        return node.clock_ahead

    assert [says(0.0), says(1.0), says(-40.0, after=41.0), says(-39.0, after=0.01)] == [0.0] * 4
    assert not caplog.records
    assert [says(37.0), says(37.0)] == [37.0, 37.0]
    (told,) = caplog.messages
    assert "the clock of node w1 is 37 s ahead of the head's" in told
    assert says(0.2) == 0.0
    assert says(-60.0) == -60.0
    assert "60 s behind" in caplog.messages[-1]
