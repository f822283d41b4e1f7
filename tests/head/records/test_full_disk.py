"""Records on a disk without room are whole lines, and refused or late, never in halves."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from disks import full, needs_mount, small_disk

from artos.errors import Refused
from artos.system.append_file import AppendFile
from head.records.run_folder import RunFolder
from triggers.journal import MOST_BYTES, Journal, read

pytestmark = needs_mount


def test_a_piece_that_fits_only_in_part_is_not_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk, AppendFile(disk / "file") as file:
        file.append(b"first\n")
        with pytest.raises(OSError, match="No space") as caught:
            file.append(bytes(1 << 20))
        assert caught.value.errno == errno.ENOSPC
        file.append(b"second\n")
        assert (disk / "file").read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("most", [MOST_BYTES, 8192])
def test_a_journal_keeps_its_lines_until_there_is_room(most: int, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        journal = Journal(disk / "journal.jsonl", most=most)
        journal.write({"n": 0})
        journal.flush()
        with full(disk):
            for number in range(1, 3000):
                journal.write({"n": number})  # who writes a firing down is not disturbed
            with pytest.raises(OSError, match="No space"):
                journal.flush()
        journal.close()
        assert [line["n"] for line in read(disk / "journal.jsonl")] == [*range(3000)]


def test_a_run_is_not_begun_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with full(disk), pytest.raises(Refused, match=r"No space left on device.*--run-dir"):
            RunFolder.create(disk / "run", {})
        assert list(disk.iterdir()) == []
        with RunFolder.create(disk / "run", {}) as folder:
            assert folder.config_file.exists()
