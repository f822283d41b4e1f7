"""How a process is told who it is, and what it says when it was not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artos.errors import NoIdentity
from artos.runs.plan import Site
from artos.runtime.template import Identity, read, tell
from artos.specs.members import ACTORS, Member, Members

ONE = Identity(Site("/dev/shm/artos.x", Member(ACTORS), Members.of_run(2)), "actor-0.log")


def test_told_through_a_descriptor_that_was_open_before(tmp_path: Path) -> None:
    file = tmp_path / "identity"
    file.write_text("x" * 1000)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        tell(file, ONE)
        assert read(descriptor) == ONE
        assert read(descriptor) == ONE  # wherever the descriptor stands
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("text", [b"", b"{", b"{}", b'{"site": 3}', b"\xff\xfe"])
def test_no_identity(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "identity"
    file.write_bytes(text)
    with file.open("rb") as opened, pytest.raises(NoIdentity, match="before sending the signal"):
        read(opened.fileno())
