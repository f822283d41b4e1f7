"""The process manager's decisions: slots in turn, parking, coming back, dying; no real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_fixture import FIVE, FOUR, ONE, THREE, TWO, Host, Restored

from artos.errors import CheckpointRefused, NotPinned, RestoreFailed
from artos.protocol.invocations import Ready
from artos.specs.elastic import Park
from artos.specs.members import TEMPLATE, Member
from artos.system.logs import MOST_BYTES
from workers.actors import turns
from workers.actors.actor_record import State
from workers.host.slots import Slot


@pytest.fixture
def host(tmp_path: Path) -> Any:
    hosts = []

    def build(actors: int = 2, slots: int = 2, park: Park = "auto", most: int = 9) -> Host:
        hosts.append(Host(tmp_path, actors, slots, park, most))
        return hosts[-1]

    yield build
    for each in hosts:
        each.manager.stop(0.0)
        assert each.manager.pids() == {}
        assert each.checkpointer.closed


def test_with_room_for_all_invocations_go_straight_through(host: Any) -> None:
    there = host()
    there.up(ONE, TWO)
    there.ask(ONE, TWO, ONE, ONE)
    assert there.served == [ONE, TWO, ONE, ONE]
    assert there.state(ONE) is State.RUNNING
    there.answer(TWO)
    assert (there.state(ONE), there.state(TWO)) == (State.RUNNING, State.PARKED)
    there.answer(ONE, ONE)
    assert there.state(ONE) is State.RUNNING
    there.answer(ONE)
    assert there.state(ONE) is State.PARKED


def test_of_many_invocations_as_many_go_through_as_a_mailbox_holds(host: Any) -> None:
    """``RoundTrigger(ahead=200)`` asks for 200 rounds at once."""
    there = host()
    there.up(ONE)
    there.ask(*[ONE] * 200)
    assert there.served == [ONE] * 64
    there.answer(*[ONE] * 64)
    assert there.served == [ONE] * 128
    there.answer(*[ONE] * 136)
    assert there.served == [ONE] * 200
    assert there.state(ONE) is State.PARKED


@pytest.mark.parametrize("pin", [True, False])
def test_a_new_process_is_moved_to_a_cpu_only_if_that_is_wanted(
    tmp_path: Path, pin: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Slot] = []

    def refuse(pid: int, slot: Slot) -> None:
        asked.append(slot)
        raise NotPinned(pid, "1", {pid: "0"})

    monkeypatch.setattr(turns.pinning, "pin", refuse)
    there = Host(tmp_path, actors=2, slots=2, park="auto", pin=pin)
    there.manager.start(TWO)
    assert asked == [Slot(1)] * pin
    assert ("not pinned to CPU 1" in caplog.text) is pin, "which ends nothing"
    there.ask(TWO)
    there.say(TWO, Ready(0.0))
    assert there.state(TWO) is State.RUNNING
    there.manager.stop(0.0)


def test_what_is_asked_before_it_is_up_waits(host: Any) -> None:
    there = host(1, 1)
    there.manager.start(ONE)
    there.ask(ONE)
    assert (there.served, there.state(ONE)) == ([], State.STARTING)
    there.say(ONE, Ready(0.0))
    assert (there.served, there.state(ONE)) == ([ONE], State.RUNNING)


def test_few_are_set_up_at_once_and_those_that_are_needed_first(host: Any) -> None:
    there = host(5, 1, most=1)
    for member in (ONE, TWO, THREE, FOUR, FIVE):
        there.manager.start(member)
    assert [*there.manager.pids()] == [ONE]
    there.say(ONE, Ready(0.0))
    assert [*there.manager.pids()] == [ONE, TWO]
    there.ask(FIVE)
    there.strategy.children[TWO].status = -9
    assert [member for member, _ in there.manager.deaths()] == [TWO]
    assert [*there.manager.pids()] == [ONE, FIVE], "the place of one that died is free"
    there.manager.end(FIVE)
    assert [*there.manager.pids()] == [ONE, THREE]
    there.say(THREE, Ready(0.0))
    assert [*there.manager.pids()] == [ONE, THREE, FOUR]


def test_an_actor_that_the_system_does_not_make_is_reported_as_dead(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise BlockingIOError(11, "too many processes")

    there = host(2)
    monkeypatch.setattr(there.strategy, "request", refuse)
    there.manager.start(ONE)
    dead = []
    for _ in range(5):
        there.clock.advance(1.1)
        dead += there.manager.deaths()
    assert [(member, death.own) for member, death in dead] == [(ONE, False)]
    assert "too many processes" in dead[0][1].why
    monkeypatch.undo()
    there.clock.advance(1.1)
    there.manager.end(ONE)
    there.up(ONE)
    assert there.state(ONE) is State.PARKED


def test_more_actors_than_slots_take_turns_first_come_first_served(host: Any) -> None:
    there = host(3, 1)
    there.up(ONE, TWO, THREE)
    there.ask(TWO, ONE, THREE, TWO)
    assert there.served == [TWO]
    states = [there.state(m) for m in (ONE, TWO, THREE)]
    assert states == [State.PARKED, State.RUNNING, State.PARKED]
    there.answer(TWO)
    assert there.served == [TWO, ONE]
    there.answer(ONE)
    there.answer(THREE)
    assert there.served == [TWO, ONE, THREE, TWO]


def test_nobody_runs_without_a_slot(host: Any) -> None:
    there = host(4, 2)
    there.up(ONE, TWO, THREE, FOUR)
    for _ in range(3):
        there.ask(ONE, TWO, THREE, FOUR)
    for _ in range(12):
        running = [m for m in (ONE, TWO, THREE, FOUR) if there.state(m) is State.RUNNING]
        assert len(running) <= 2
        there.answer(running[0])
    assert sorted(there.served) == sorted([ONE, TWO, THREE, FOUR] * 3)
    assert there.manager.usage().cpu_seconds_held == pytest.approx(12 * 1.0, abs=12.0)


def test_whoever_is_never_parked_keeps_its_slot(host: Any) -> None:
    there = host(1, 1, "never")
    there.up(ONE)
    there.ask(ONE)
    there.answer(ONE)
    before = there.manager.usage().cpu_seconds_held
    there.clock.advance(5.0)
    assert there.manager.usage().cpu_seconds_held == before + 5.0
    there.ask(ONE)
    assert there.served == [ONE, ONE]


def test_whoever_is_used_no_longer_keeps_no_slot_even_if_never_parked(host: Any) -> None:
    there = host(2, 1, "never")
    there.up(ONE, TWO)
    there.ask(ONE)
    there.answer(ONE)
    there.ask(TWO)
    assert there.served == [ONE], "the slot is kept for it"
    there.manager.retire(ONE)
    assert there.served == [ONE, TWO]


def test_an_answer_may_be_read_after_the_death_of_who_gave_it(host: Any) -> None:
    there = host(2, 1)
    there.up(ONE, TWO)
    there.ask(ONE, TWO)
    there.strategy.children[ONE].status = -9
    assert [member for member, _ in there.manager.deaths()] == [ONE]
    there.answer(ONE)
    assert there.state(ONE) is State.DEAD
    there.manager.end(ONE)
    assert there.served == [ONE, TWO]


def test_parked_actors_hold_no_slot(host: Any) -> None:
    there = host(1, 1)
    there.up(ONE)
    there.ask(ONE)
    there.answer(ONE)
    before = there.manager.usage().cpu_seconds_held
    there.clock.advance(5.0)
    assert there.manager.usage().cpu_seconds_held == before


def test_a_checkpointed_actor_comes_back_and_binds_first(host: Any) -> None:
    there = host(1, 1, "checkpoint")
    there.up(ONE)
    child = there.strategy.children[ONE]
    there.ask(ONE)
    there.answer(ONE)
    assert there.state(ONE) is State.DUMPING
    child.status = -9  # CRIU ends it
    assert there.manager.deaths() == []
    there.checkpointer.dumps[0].result = object()
    there.manager.step()
    assert there.state(ONE) is State.CHECKPOINTED
    assert there.unpinned == [0]
    assert there.manager.pids() == {}
    there.ask(ONE)
    assert there.state(ONE) is State.RESTORING
    assert there.served == [ONE]
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert there.state(ONE) is State.RUNNING
    assert [call.bind for _, call in there.delivered] == [False, True]
    assert there.manager.accounts.starts()["restore"].count == 1
    there.ask(ONE)
    assert there.delivered[-1][1].bind is False


def test_asked_while_its_image_is_taken_it_comes_back_at_once(host: Any) -> None:
    there = host(1, 1, "checkpoint")
    there.up(ONE)
    there.ask(ONE)
    there.answer(ONE)
    there.ask(ONE)
    assert there.state(ONE) is State.DUMPING
    there.checkpointer.dumps[0].result = object()
    there.manager.step()
    assert there.state(ONE) is State.RESTORING


def test_whoever_cannot_be_checkpointed_three_times_stays_in_memory(
    host: Any, logged: list[str]
) -> None:
    there = host(1, 1, "checkpoint")
    there.up(ONE)
    for attempt in range(3):
        there.ask(ONE)
        there.answer(ONE)
        assert there.state(ONE) is State.DUMPING
        refused = CheckpointRefused(7, "an open TCP connection", "log")
        there.checkpointer.dumps[attempt].result = refused
        there.manager.step()
        assert there.state(ONE) is State.PARKED
    assert "TCP" in logged[0]
    there.ask(ONE)
    there.answer(ONE)
    assert there.state(ONE) is State.PARKED
    assert len(there.checkpointer.dumps) == 3


def test_whose_image_is_lost_begins_anew_and_does_its_work(host: Any) -> None:
    there = host(1, 1, "checkpoint")
    there.up(ONE)
    there.ask(ONE)
    there.answer(ONE)
    there.checkpointer.dumps[0].result = object()
    there.manager.step()
    there.ask(ONE)
    there.checkpointer.restores[0].result = RestoreFailed("actor-0", "truncated", "log")
    there.manager.step()
    assert there.state(ONE) is State.STARTING
    assert there.checkpointer.dropped == ["actor-0"]
    there.manager.step()
    there.say(ONE, Ready(0.0))
    assert there.state(ONE) is State.RUNNING
    assert there.served == [ONE, ONE]


def test_a_retired_actor_becomes_an_image_and_one_that_is_prepared_comes_back(host: Any) -> None:
    there = host(2, 1)
    there.up(ONE, TWO)
    there.ask(TWO)
    there.manager.retire(TWO)
    assert there.state(TWO) is State.RUNNING
    there.answer(TWO)
    assert there.state(TWO) is State.DUMPING
    there.checkpointer.dumps[0].result = object()
    there.manager.step()
    there.manager.prepare(TWO)
    assert there.state(TWO) is State.RESTORING
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert there.state(TWO) is State.PARKED


def test_a_retired_actor_holds_no_weights_and_comes_back_to_the_newest(host: Any) -> None:
    there = host(2, 1, "memory")
    there.up(ONE, TWO)
    there.ask(TWO)
    there.manager.retire(TWO)
    assert there.unpinned == []
    there.answer(TWO)
    assert (there.state(TWO), there.unpinned) == (State.PARKED, [1])
    there.manager.prepare(TWO)
    there.ask(TWO)
    there.answer(TWO)
    there.ask(TWO)
    assert [call.bind for _, call in there.delivered] == [False, True, False]


def test_a_death_is_told_once_and_its_slot_is_free(host: Any) -> None:
    there = host(2, 1)
    there.up(ONE, TWO)
    there.ask(ONE, TWO)
    there.strategy.children[ONE].status = 3
    (member, death), *more = there.manager.deaths()
    assert (member, more) == (ONE, [])
    assert "exit status 3" in death.why
    assert "its last words" in death.why
    assert there.manager.deaths() == []
    there.manager.end(ONE)
    assert there.served == [ONE, TWO]
    there.manager.start(ONE)
    there.say(ONE, Ready(0.0))
    assert there.state(ONE) is State.PARKED


def test_one_that_was_given_a_process_during_its_pause_keeps_it(host: Any) -> None:
    """Someone asks for a branch of it, or for as many actors as before."""
    there = host(2, 2)
    there.up(ONE, TWO)
    there.strategy.children[ONE].status = 3
    there.manager.deaths()
    there.manager.end(ONE)
    there.manager.prepare(ONE)
    there.manager.start(ONE)
    assert there.state(ONE) is State.STARTING
    there.say(ONE, Ready(0.0))
    there.manager.start(ONE)
    assert there.state(ONE) is State.PARKED


def test_a_way_that_is_barred_is_followed_by_the_next(host: Any, logged: list[str]) -> None:
    there = host(2, 1)
    there.strategy.barred = True
    there.manager.start(ONE)
    there.manager.start(TWO)
    there.manager.step()
    assert there.strategy.closed
    assert sorted(there.spare.children) == [ONE, TWO]
    assert "user code raised" in logged[0]


def test_a_process_nobody_wants_any_more_is_killed(host: Any) -> None:
    there = host(1, 1)
    there.manager.spawner.request(ONE)  # as if it were slow to come
    there.manager.spawner.withdraw(ONE)
    there.manager.step()
    assert there.strategy.children[ONE].killed


@pytest.mark.parametrize("when", ["dumping", "checkpointed", "restoring"])
def test_an_actor_that_is_ended_stays_so_whatever_was_under_way(host: Any, when: str) -> None:
    """Its dump or restore is called off: nothing that comes of it starts anybody."""
    there = host(2, 2, "checkpoint")
    there.up(ONE, TWO)
    there.ask(ONE)
    there.answer(ONE)
    if when != "dumping":
        there.checkpointer.dumps[0].result = object()
        there.manager.step()
    if when == "restoring":
        there.ask(ONE)
    under_way = (there.checkpointer.dumps + there.checkpointer.restores)[-1]
    there.manager.end(ONE)
    under_way.result = Restored()
    for _ in range(2):
        there.manager.step()
        there.clock.advance(1.0)
        there.manager.tick()
    assert (there.state(ONE), there.strategy.asked) == (State.COLD, [])
    assert there.manager.pids().keys() == {TWO}
    assert under_way.cancelled == (when != "checkpointed")
    assert there.manager.deaths() == []
    there.manager.start(ONE)
    there.say(ONE, Ready(0.0))
    there.ask(ONE)
    assert there.served == [ONE, ONE], "what it was asked before is forgotten, its slot is free"


def test_a_new_process_finds_an_empty_mailbox_and_what_the_old_one_left_mended(host: Any) -> None:
    there = host()
    there.up(ONE, TWO)
    there.ask(ONE)
    there.manager.end(ONE)
    assert there.recovered == [0]
    there.mail.cleared.clear()
    there.ask(ONE)  # it is started for that
    assert there.mail.cleared == [ONE]


def test_what_the_template_says_is_no_report_of_an_actor(host: Any) -> None:
    there = host(2)
    there.manager.start(ONE)
    ready = Ready(0.0)
    assert there.say(Member(TEMPLATE), ready) == []
    assert there.strategy.said == [ready]
    assert there.manager.pids().keys() == {ONE}
    assert there.say(ONE, ready) == [ready]


def test_a_template_that_prints_without_end_fills_no_disk(host: Any, tmp_path: Path) -> None:
    there = host()
    log = tmp_path / "logs" / "template.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as template:
        template.truncate(MOST_BYTES + 1)
        there.manager.tick()
        assert log.stat().st_size == 0
        template.write(b"on it goes")
    assert log.read_bytes() == b"on it goes"
