"""Mailboxes, doorbells and the board: nothing lost, nothing torn, whoever is killed."""

from __future__ import annotations

import mmap
import threading
import time
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from buffer_helpers import Child, Fuse, Killed, Tripwire, temporary_folder
from helpers import PATIENCE
from hypothesis import given, settings
from hypothesis import strategies as st
from named import LEARNER, acting

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.mailbox import Board, Mailbox, mailbox_bytes
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import ShmFolder
from artos.errors import MailboxFull
from artos.specs.members import ACTORS, Member, Members

MEMBERS = Members.of_run(2)
(_, SECOND) = acting(0, 1)


def memory_for(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, mailbox_bytes(size)))


@settings(max_examples=100)
@given(st.integers(5, 64), st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=60))
def test_mailbox_equals_a_bounded_queue(size, moves):
    """None takes a message, bytes put one; four bytes of every record are its length."""
    memory = memory_for(size)
    writer = Mailbox(memory, 0, size, "test", create=True)
    reader = Mailbox(memory, 0, size, "test")
    queue: deque[bytes] = deque()
    for message in moves:
        if message is None:
            assert reader.take() == (queue.popleft() if queue else None)
        elif sum(len(m) + 4 for m in queue) + len(message) + 4 > size:
            with pytest.raises(MailboxFull) as caught:
                writer.put(message)
            assert (caught.value.name, caught.value.size) == ("test", size)
        else:
            writer.put(message)
            queue.append(message)
    assert [reader.take() for _ in queue] == list(queue)
    assert reader.take() is None


@pytest.mark.parametrize(("used", "stores"), [(0, 2), (50, 3)], ids=["in one piece", "wrapped"])
def test_a_writer_killed_in_the_middle_leaves_nothing(used: int, stores: int) -> None:
    memory = memory_for(64)
    writer = Mailbox(memory, 0, 64, "test", create=True)
    writer.put(b"x" * (used - 4 if used else 0))
    writer.take()
    for survived in range(stores):
        doomed = Mailbox(memory, 0, 64, "test")
        fuse = Fuse(survived)
        doomed._words = Tripwire(doomed._words, fuse)
        doomed._data = Tripwire(doomed._data, fuse)
        with pytest.raises(Killed):
            doomed.put(b"half a message")
    heir = Mailbox(memory, 0, 64, "test")
    heir.put(b"after")
    assert [heir.take(), heir.take()] == [b"after", None]


def test_clear_forgets_messages_and_rings() -> None:
    mailbox = Mailbox(memory_for(64), 0, 64, "test", create=True)
    mailbox.put(b"old")
    mailbox.clear()
    assert mailbox.get(0) is None
    mailbox.put(b"new")
    assert mailbox.get(0) == b"new"


def test_get_gives_up_in_time_and_takes_what_comes() -> None:
    mailbox = Mailbox(memory_for(64), 0, 64, "test", create=True)
    begun = time.monotonic()
    assert mailbox.get(0.01) is None
    assert time.monotonic() - begun >= 0.01
    sender = threading.Thread(target=mailbox.put, args=(b"hello",))
    sender.start()
    assert mailbox.get(30) == b"hello"
    sender.join()


@pytest.mark.processes
def test_messages_survive_their_writer(folder: ShmFolder) -> None:
    """A process that writes as fast as it can is killed, again and again: a prefix arrives."""
    segment = Segment.create(folder.path / "mail", mailbox_bytes(4096))
    reader = Mailbox(segment.memory, 0, 4096, "test", create=True)

    def write_for_ever() -> None:
        mailbox = Mailbox(Segment.attach(segment.path).memory, 0, 4096, "test")
        number = 0
        while True:
            try:
                mailbox.put(number.to_bytes(4, "little") * (1 + number % 50))
                number += 1
            except MailboxFull:
                mailbox.doorbell.ring()

    for last in range(50, 1050, 100):
        number = 0
        with Child(write_for_ever) as child:
            while number < last:
                message = reader.get(30)
                assert message == number.to_bytes(4, "little") * (1 + number % 50)
                number += 1
            child.kill()
        while (message := reader.take()) is not None:
            assert message == number.to_bytes(4, "little") * (1 + number % 50)
            number += 1
        reader.doorbell.drain()


# -- doorbell ----------------------------------------------------------------------------------


def test_rings_are_counted_and_never_lost() -> None:
    memory = mmap.mmap(-1, SEMAPHORE_BYTES)
    doorbell = Doorbell(memory, 0, create=True)
    other = Doorbell(memory, 0)
    assert doorbell.drain() == 0
    assert not doorbell.wait(0)
    for _ in range(3):
        other.ring()
    assert doorbell.wait(0)
    assert doorbell.wait(1)
    assert doorbell.drain() == 1
    assert not doorbell.wait(0.001)


def test_a_bell_that_moves_takes_its_rings_along() -> None:
    here, there = mmap.mmap(-1, SEMAPHORE_BYTES), mmap.mmap(-1, SEMAPHORE_BYTES)
    doorbell, moved = Doorbell(here, 0, create=True), Doorbell(there, 0, create=True)
    for _ in range(3):
        doorbell.ring()
    assert len(doorbell.memory) == SEMAPHORE_BYTES
    moved.memory[:] = bytes(doorbell.memory)
    assert moved.drain() == 3


@pytest.mark.processes
def test_a_waiter_killed_in_its_sleep_leaves_the_bell_usable(folder: ShmFolder) -> None:
    segment = Segment.create(folder.path / "doorbell", 4096)
    doorbell = Doorbell(segment.memory, 0, create=True)
    ready = Doorbell(segment.memory, 64, create=True)

    def sleep() -> None:
        ready.ring()
        doorbell.wait(PATIENCE)

    for _ in range(3):
        with Child(sleep) as child:
            assert ready.wait(PATIENCE)
            child.kill()
    with Child(sleep) as child:
        assert ready.wait(PATIENCE)
        doorbell.ring()
        assert child.join() == 0
    assert doorbell.drain() == 0


# -- board -------------------------------------------------------------------------------------


def test_board_tells_who_changed(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", Members.of_run(39))
    member = Board.attach(folder.path / "board", Members.of_run(39))
    assert board.changed() == []
    for actor in (38, 3, 3):
        member.notify(Member(ACTORS, actor))
    member.notify(LEARNER)
    assert board.doorbell.wait(0)
    assert board.changed() == [LEARNER, *acting(3, 38)]
    assert not board.doorbell.wait(0)
    assert board.changed() == []


def test_who_notifies_while_the_node_looks_is_seen_then_or_wakes_it(folder: ShmFolder) -> None:
    """Whichever of the node's two looks it falls behind: no notice without a ring to come."""
    board = Board.create(folder.path / "board", MEMBERS)
    member = Board.attach(folder.path / "board", MEMBERS)
    for look in ("drain", "copy"):
        place = board.doorbell if look == "drain" else board
        before = board.doorbell.drain if look == "drain" else board._counters.copy

        def and_then_somebody_notifies(before=before):  # type: ignore[no-untyped-def]
            seen = before()
            member.notify(SECOND)
            return seen

        with pytest.MonkeyPatch.context() as patch:
            if look == "drain":
                patch.setattr(place, "drain", and_then_somebody_notifies)
            else:
                patch.setattr(place, "_counters", SimpleNamespace(copy=and_then_somebody_notifies))
            seen = board.changed()
        assert board.doorbell.wait(0), "the node would sleep"
        assert [*seen, *board.changed()] == [SECOND]


def test_mailboxes_of_a_board_do_not_touch(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", MEMBERS)
    member = Board.attach(folder.path / "board", MEMBERS)
    boxes = [(board.down, member.down), (member.up, board.up)]
    three = (LEARNER, *acting(0, 1))
    for number, who in enumerate(three):
        for way, (put, _) in enumerate(boxes):
            box = put(who)
            message = bytes([number, way]) * ((box.size - 4) // 2)
            box.put(message)
            with pytest.raises(MailboxFull):
                box.put(b"more")
    for number, who in enumerate(three):
        for way, (_, take) in enumerate(boxes):
            got = np.frombuffer(take(who).take() or b"", np.uint8).reshape(-1, 2)
            assert len(got) > 16_000
            assert (got == (number, way)).all()


@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=40))
def test_no_notice_is_lost(moves):
    with temporary_folder() as path:
        board = Board.create(path / "board", Members.of_run(6))
        waiting: set[Member] = set()
        for member in [*moves, None]:
            if member is None:
                assert board.changed() == sorted(waiting, key=board.members.number)
                waiting.clear()
            else:
                board.notify(board.members.member(member))
                waiting.add(board.members.member(member))
