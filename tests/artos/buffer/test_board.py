"""The board: where everything lies, whose bells ring, and who finds what was told."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.layout import PAGE, align
from artos.buffer.mailbox import Board, header_bytes, mailbox_bytes
from artos.buffer.shm_folder import ShmFolder
from artos.members import ACTORS, Member


def fresh_bell() -> bytes:
    return bytes(Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True).memory)


def test_who_attaches_to_a_board_changes_nothing_there(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", 3)
    board.notify(2)
    board.down(1).put(b"for you")
    late = Board.attach(folder.path / "board", 3)
    assert late.down(1).doorbell.wait(0), "its ring is still there"
    assert late.down(1).take() == b"for you"
    assert board.doorbell.wait(0)
    assert board.changed() == [2]


def test_a_board_begins_with_a_bell_that_processes_share_and_whole_counters(
    folder: ShmFolder,
) -> None:
    board = Board.create(folder.path / "board", 3)
    assert bytes(board._segment.memory[:SEMAPHORE_BYTES]) == fresh_bell()
    for member in (0, 4, 4):
        board.notify(member)
    counters = np.ndarray(5, np.int64, board._segment.memory, SEMAPHORE_BYTES)
    assert counters.tolist() == [1, 0, 0, 0, 2]


def test_the_guests_of_a_board_have_mail_of_their_own(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", 3)
    guests = [template_member(3), control_member(3), evaluator_member(3)]
    assert guests == [3, 4, 5]
    for guest in guests:
        board.notify(guest)
        board.up(guest).put(b"from %d" % guest)
    assert board.changed() == guests
    assert [board.up(guest).take() for guest in guests] == [b"from 3", b"from 4", b"from 5"]


def test_mailboxes_fill_the_file_one_after_the_other(folder: ShmFolder) -> None:
    """Two of each member, the learner's larger; every one with a doorbell that processes share."""
    board = Board.create(folder.path / "board", 3)
    memory = np.frombuffer(board._segment.memory, np.uint8)

    def place(part: Any) -> int:
        return np.frombuffer(part, np.uint8).ctypes.data - memory.ctypes.data

    at = PAGE
    for member in range(6):
        size = 256 << 10 if member == 0 else 32 << 10
        for box, name in ((board.down(member), "to"), (board.up(member), "from")):
            assert (place(box._words), place(box._data)) == (at, at + header_bytes())
            assert (len(box._data), box.size, box.name) == (size, size, f"{name} member {member}")
            assert bytes(box.doorbell.memory) == fresh_bell()
            at += mailbox_bytes(size)
    assert len(memory) == align(at, PAGE)


def test_a_mailbox_asked_for_again_is_the_same_one(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", 3)
    for box, again in ((board.down(1), board.down(1)), (board.up(1), board.up(1))):
        box.put(b"message")
        assert again.doorbell.wait(0)
        assert again.take() == b"message"
    board.up(1).put(b"another")
    assert board.up(1).doorbell.wait(0), "whoever asks takes no ring away"


def test_members_are_counted_from_the_learner_on() -> None:
    assert [Member(ACTORS, actor) for actor in range(3)] == [1, 2, 3]
