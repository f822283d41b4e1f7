"""The identity of a prepared process, given at the last moment by a descriptor and a signal.

The owner of the process writes an ``Identity`` to the file behind ``IDENTITY_FD`` and then sends
``WAKE``. A clone of an image is given a file of its own there when it is restored.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from artos.errors import NoIdentity
from artos.plan import Site
from artos.protocol.unreadable import UNREADABLE

IDENTITY_FD = 100
"""Descriptor on which a template holds its identity file until it has read it."""
LOG = (1, 2)
"""Descriptors that are a member's log."""
WAKE = signal.SIGUSR1
"""Sent when the identity is written."""


class Identity(msgspec.Struct, frozen=True):
    """The member a process becomes, and the log file it writes to (empty: the one it has)."""

    site: Site
    log: str = ""


def tell(path: Path, identity: Identity) -> None:
    """Write an identity into the file in place, since its reader may hold it open already."""
    path.write_bytes(msgspec.json.encode(identity))


class Sleeper:
    """Sleeps until it is given an identity, with nothing open but that file and its log."""

    def __init__(self, identity_file: str) -> None:
        # First of all, so that no thread of user code inherits another mask and takes the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {WAKE})
        opened = os.open(identity_file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.dup2(opened, IDENTITY_FD, inheritable=False)
        os.close(opened)

    def next(self) -> Identity:
        """Sleep until woken; then read the identity and close the descriptor.

        Raises:
            NoIdentity: woken while the file held no identity.
        """
        signal.sigwait({WAKE})
        # Blocked signals are inherited by what user code starts.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {WAKE})
        try:
            return read(IDENTITY_FD)
        finally:
            os.close(IDENTITY_FD)


def read(descriptor: int) -> Identity:
    """The identity in the file behind a descriptor, wherever that stands.

    Raises:
        NoIdentity: it is empty or no identity.
    """
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    try:
        return msgspec.json.decode(text, type=Identity)
    except UNREADABLE as error:
        raise NoIdentity(text.decode(errors="replace"), str(error)) from error


def take_log(log: str) -> None:
    """Make a file (appended to) the log of this process; an empty name keeps the one it has."""
    if not log:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    for descriptor in LOG:
        os.dup2(opened, descriptor)
    os.close(opened)
