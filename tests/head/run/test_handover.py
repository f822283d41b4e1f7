"""A run whose members are processes goes on where it stopped: what was asked, what was held."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER, acting

from artos.buffer.rows_file import read_rows, write_rows
from artos.errors import CheckpointFault, ShmTooSmall
from artos.protocol.invocations import Ready
from artos.runtime.held import Held
from artos.specs.actor_count import Schedule
from artos.specs.members import Member
from artos.system.snapshot import Snapshot
from head.run.handover import Handover, States, members_in

EVERYBODY = (LEARNER, *acting(0, 1))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def part(stage: ExitStack, folder: Path, updates: int = 50) -> Troupe:
    folder.mkdir()
    return stage.enter_context(
        troupe(Schedule({0: 2}), full_batch(max_lag=1), 0, folder, updates=updates)
    )


def hand_over(part: Troupe, *, silent: Member | None = None) -> Snapshot:
    """What a part of a run is saved with once its members have ended."""
    handover = Handover(part._node.site, b"")
    assert handover.snapshot(part.coordinator, [LEARNER]) is None, "they may still change it"
    for member in EVERYBODY:
        if member != silent:
            Held(str(member).encode()).write(part._node.site.held_path(member))
    handover.over = True
    taken = handover.snapshot(part.coordinator, [LEARNER])
    assert taken is not None
    return taken


def move_rows(one: Troupe, other: Troupe, folder: Path) -> None:
    """By way of the files of a checkpoint."""
    rows = write_rows(folder / "rows", one._node.blocks)
    read_rows(folder / "rows", rows, other._node.blocks)
    slot = one._node.weights.newest
    other._node.restore(other._node.plan.learner, slot.arrays, slot.version)


def test_every_row_is_learned_from_once_whoever_was_late(stage: ExitStack, tmp_path: Path) -> None:
    """One actor was not asked any more before the run stopped; the rows of the other one wait."""
    first = part(stage, tmp_path / "first")
    first.begin()
    first.run(updates=5)
    (late,) = acting(0)
    first.coordinator.ending.drain()
    while any(first._queues.get(m) for m in EVERYBODY if m != late):
        member = next(m for m in EVERYBODY if m != late and first._queues.get(m))
        call = first._queues[member].popleft()
        done = first._learn(call) if member == LEARNER else first._act(member.rank, call)
        first.coordinator.receive(member, done)
    assert first.coordinator.invocations.of(late), "it has still to answer"
    assert sum(first.unused().values()) >= STEPS, "rows wait that nobody has learned from"
    taken = hand_over(first)
    second = part(stage, tmp_path / "second", updates=20)
    move_rows(first, second, tmp_path)
    handover = Handover(second._node.site, taken.data)
    handover.lay_out()
    assert handover.begin(second.coordinator, [LEARNER])
    for member in EVERYBODY:
        assert not any(second._queues.values()), "nothing is asked before all are ready"
        second.coordinator.receive(member, Ready(0.0))
        handover.look(second.coordinator)
    assert second._queues[late]
    second.run()
    ends = dict.fromkeys((0, 1), 0)
    for claim in (claim for claims in (*first.used, *second.used) for claim in claims):
        assert claim.start == ends[claim.actor], "rows go in order, each once"
        ends[claim.actor] = claim.stop
    assert len(first.used) + len(second.used) == 20


def test_before_the_first_version_there_is_nothing_to_save(
    stage: ExitStack, tmp_path: Path
) -> None:
    first = part(stage, tmp_path / "first")
    handover = Handover(first._node.site, b"")
    handover.over = True
    assert handover.snapshot(first.coordinator, [LEARNER]) is None


def test_members_find_what_they_held(stage: ExitStack, tmp_path: Path) -> None:
    first = part(stage, tmp_path / "first")
    first.begin()
    taken = hand_over(first)
    assert taken.lost == ()
    second = part(stage, tmp_path / "second")
    Handover(second._node.site, taken.data).lay_out()
    for member in EVERYBODY:
        assert Held.read(second._node.site.held_path(member)) == Held(str(member).encode())


def test_without_room_for_it_the_run_is_refused(
    stage: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = part(stage, tmp_path / "first")
    first.begin()
    taken = hand_over(first)

    def full(held: Held, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Held, "write", full)
    with pytest.raises(ShmTooSmall):
        Handover(first._node.site, taken.data).lay_out()


def test_who_says_nothing_is_named(stage: ExitStack, tmp_path: Path) -> None:
    first = part(stage, tmp_path / "first")
    first.begin()
    (silent, odd) = acting(0, 1)
    taken = hand_over(first, silent=silent)
    assert taken.lost == (
        "actor 0 starts again: it did not say what it held before its process ended",
    )
    Held(why="cannot pickle 'lock' object").write(first._node.site.held_path(odd))
    handover = Handover(first._node.site, b"")
    handover.over = True
    again = handover.snapshot(first.coordinator, [LEARNER])
    assert again is not None
    assert again.lost[1] == "actor 1 starts again: cannot pickle 'lock' object"
    assert msgspec.msgpack.decode(again.data, type=States).members.keys() == {LEARNER}


def test_who_dies_as_the_run_goes_on_is_asked_once(stage: ExitStack, tmp_path: Path) -> None:
    """It is started again by ``Recovery``, which asks it for all that it has to answer."""
    first = part(stage, tmp_path / "first")
    first.begin()
    first.coordinator.ending.drain()
    second = part(stage, tmp_path / "second", updates=9)
    taken = hand_over(first)
    move_rows(first, second, tmp_path)
    handover = Handover(second._node.site, taken.data)
    handover.lay_out()
    assert handover.begin(second.coordinator, [LEARNER])
    dying, other = acting(0, 1)
    second.coordinator.receive(LEARNER, Ready(0.0))
    second.coordinator.receive(other, Ready(0.0))
    second.kill(dying.rank)
    handover.look(second.coordinator)
    second.clock.advance(60.0)
    second.coordinator.tick()
    handover.look(second.coordinator)
    second.wake(dying.rank)
    handover.look(second.coordinator)
    calls = [call.firing for call in second._queues[dying]]
    assert calls == [call.firing for call in second.coordinator.invocations.of(dying)]
    second.run()
    assert len(second.used) == 9


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (States(b"", (), {}, version="0.0.1", apart=True), "ARTOS 0.0.1"),
        (States(b"", (), {}, b"", "", apart=True), "of earlier days"),
        (None, "with --inline"),
    ],
)
def test_states_of_other_runs_are_refused_by_name(
    states: States | None, why: str, stage: ExitStack, tmp_path: Path
) -> None:
    first = part(stage, tmp_path / "first")
    first.begin()
    if states is None:
        states = msgspec.msgpack.decode(hand_over(first).data, type=States)
        states.apart = False
    with pytest.raises(CheckpointFault, match=rf"{why}.*=model"):
        Handover(first._node.site, msgspec.msgpack.encode(states)).lay_out()


def test_a_replay_is_told_which_members_go_on(stage: ExitStack, tmp_path: Path) -> None:
    first = part(stage, tmp_path / "first")
    first.begin()
    first.run(updates=1)
    (late,) = acting(1)
    assert {*members_in(hand_over(first, silent=late).data)} == {LEARNER, *acting(0)}
    assert [*members_in(b"")] == []
    with pytest.raises(CheckpointFault, match="not those of this code"):
        members_in(msgspec.msgpack.encode({"members": {3: b""}}))
