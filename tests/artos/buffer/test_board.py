"""The board: where everything lies, whose bells ring, and who finds what was told."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from named import EVALUATOR, LEARNER, acting

from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.layout import PAGE, align
from artos.buffer.mailbox import Board, header_bytes, mailbox_bytes
from artos.buffer.shm_folder import ShmFolder
from artos.specs.members import CONTROL, TEMPLATE, Member, Members

MEMBERS, CONTROLS = Members.of_run(2, evaluates=True), Member(CONTROL)
FIRST, SECOND = acting(0, 1)


def fresh_bell() -> bytes:
    return bytes(Doorbell(mmap.mmap(-1, SEMAPHORE_BYTES), 0, create=True).memory)


def test_who_attaches_to_a_board_changes_nothing_there(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", MEMBERS)
    board.notify(SECOND)
    board.down(FIRST).put(b"for you")
    late = Board.attach(folder.path / "board", MEMBERS)
    assert late.down(FIRST).doorbell.wait(0), "its ring is still there"
    assert late.down(FIRST).take() == b"for you"
    assert board.doorbell.wait(0)
    assert board.changed() == [SECOND]


def test_a_board_begins_with_a_bell_that_processes_share_and_whole_counters(
    folder: ShmFolder,
) -> None:
    board = Board.create(folder.path / "board", MEMBERS)
    assert bytes(board._segment.memory[:SEMAPHORE_BYTES]) == fresh_bell()
    for member in (LEARNER, CONTROLS, CONTROLS):
        board.notify(member)
    counters = np.ndarray(5, np.int64, board._segment.memory, SEMAPHORE_BYTES)
    assert counters.tolist() == [1, 0, 0, 0, 2]


def test_the_guests_of_a_board_have_mail_of_their_own(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", MEMBERS)
    guests = [Member(TEMPLATE), CONTROLS, EVALUATOR]
    for guest in guests:
        board.notify(guest)
        board.up(guest).put(b"from %s" % guest.role.encode())
    assert board.changed() == guests
    assert [board.up(guest).take() for guest in guests] == [
        b"from template", b"from control", b"from evaluator"
    ]  # fmt: skip


def test_mailboxes_fill_the_file_one_after_the_other(folder: ShmFolder) -> None:
    """Two of each member, the learner's larger; every one with a doorbell that processes share."""
    board = Board.create(folder.path / "board", MEMBERS)
    memory = np.frombuffer(board._segment.memory, np.uint8)

    def place(part: Any) -> int:
        return np.frombuffer(part, np.uint8).ctypes.data - memory.ctypes.data

    at = PAGE
    for member in (LEARNER, FIRST, SECOND, Member(TEMPLATE), CONTROLS, EVALUATOR):
        size = 256 << 10 if member == LEARNER else 32 << 10
        for box, name in ((board.down(member), "to"), (board.up(member), "from")):
            assert (place(box._words), place(box._data)) == (at, at + header_bytes())
            assert (len(box._data), box.size, box.name) == (size, size, f"{name} {member}")
            assert bytes(box.doorbell.memory) == fresh_bell()
            at += mailbox_bytes(size)
    assert len(memory) == align(at, PAGE)


def test_a_mailbox_asked_for_again_is_the_same_one(folder: ShmFolder) -> None:
    board = Board.create(folder.path / "board", MEMBERS)
    boxes = (board.down(FIRST), board.down(FIRST)), (board.up(FIRST), board.up(FIRST))
    for box, again in boxes:
        box.put(b"message")
        assert again.doorbell.wait(0)
        assert again.take() == b"message"
    board.up(FIRST).put(b"another")
    assert board.up(FIRST).doorbell.wait(0), "whoever asks takes no ring away"
