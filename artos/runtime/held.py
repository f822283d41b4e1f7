"""What a member's process hands over at its end, and another one takes up: a file of the run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from artos.errors import CheckpointFault
from artos.specs.unreadable import UNREADABLE
from artos.system.regular_file import contents
from artos.system.snapshot import (
    NotKept,
    global_streams,
    pickled,
    set_global_streams,
    unpickled,
)

if TYPE_CHECKING:
    from artos.runtime.member import Role

OF_OTHERS = (
    "its states are not those of this code and these settings ({}): resume with the same, or go on "
    "without them by --set checkpoint=model"
)
HAND_OVER_SECONDS = 30.0
"""How long members may take to say what they hold, all together."""
_MOST_SENT = 256 << 20
"""Bytes that all actors of a run together may send to another machine or from it."""
_TOO_LARGE = "it holds {} bytes, and {} actors may send {} each"
UNFIT = (NotKept, ValueError, LookupError, TypeError, AttributeError)
"""What is raised where a part of a run is given the state of a part of another kind."""


class Held(msgspec.Struct, frozen=True):
    """What a member holds between two invocations, pickled, or why it cannot be said."""

    data: bytes = b""
    why: str = ""

    def write(self, path: Path) -> None:
        """Put it into a file, which is whole as soon as it is there.

        Raises:
            OSError: there is no room for it; nothing is left behind.
        """
        draft = path.with_name(f"{path.name}.part")
        try:
            draft.write_bytes(msgspec.msgpack.encode(self))
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def keep(self, path: Path) -> None:
        """The same; without room for it the file says that instead, if there is room for that."""
        try:
            self.write(path)
        except OSError as error:
            with suppress(OSError):  # then nobody is told why
                Held(why=f"{error.strerror} in {path.parent}").write(path)

    def to_send(self, actors: int) -> Held:
        """The same, or that it is too large for a run of so many actors to be sent."""
        most = _MOST_SENT // actors
        if len(self.data) <= most:
            return self
        return Held(why=_TOO_LARGE.format(len(self.data), actors, most))

    @classmethod
    def read(cls, path: Path) -> Held | None:
        """What is in a file; None if there is no such file, or nothing that could be read."""
        try:
            return msgspec.msgpack.decode(contents(path), type=cls)
        except (OSError, *UNREADABLE):
            return None


def carry(held: Path, to: Path) -> None:
    """Copy what a member held from one file to another.

    Raises:
        NotKept: it is not there, or says why nothing could be kept.
        OSError: there is no room for it.
    """
    there = Held.read(held) or Held(why="it did not say what it held before it ended")
    if not there.data:
        raise NotKept(there.why)
    there.write(to)


def hand_over(role: Role, path: Path) -> None:
    """Write down what a member holds, with the global random streams of its process.

    Whatever keeps it from that is written down instead: the member ends in any case.
    """
    try:
        held = Held(pickled((role.snapshot(), global_streams())))
    except NotKept as why:
        held = Held(why=str(why))
    except Exception as error:  # whatever user code raises when it is asked
        held = Held(why=f"{type(error).__name__}: {error}")
    held.keep(path)


def take_up(role: Role, path: Path) -> None:
    """Have a member go on from the file, if there is one. It is gone then: that counts once.

    It runs code, so only for files of a run that is resumed.

    Raises:
        CheckpointFault: it was written by other code, or with other settings.
    """
    held = Held.read(path)
    if held is None or not held.data:
        return
    try:
        found, streams = unpickled(held.data)
        role.go_on(found)
        set_global_streams(streams)
    except UNFIT as error:
        raise CheckpointFault("of the run", OF_OTHERS.format(error)) from error
    path.unlink()
