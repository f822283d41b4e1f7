"""A workload's template: a process with everything prepared except which actor it is.

::

    python -P -m artos.runtime.template image SITE PLAN_FILE IDENTITY_FILE
    python -P -m artos.runtime.template fork SITE PLAN_FILE [apart]

``image`` builds the environments, then sleeps, ready to be checkpointed: each clone of the image
(or, without images, the template itself) becomes an actor when it is told its identity. ``fork``
forks on request; it leaves the environments out where a fork would lose their threads or share
their files. Its forks are ``apart`` if images are to be made of them, see ``fork_aside``. SITE
names the template itself, as which it reports ``Ready`` or ``Failed``.

An identity is given at the last moment: the owner of the process writes an ``Identity`` to the file
behind ``IDENTITY_FD`` and then sends ``WAKE``. A clone of an image is given a file of its own there
when it is restored.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from artos.errors import NoIdentity
from artos.runs.plan import Site
from artos.specs.unreadable import UNREADABLE
from artos.system.child import begin_member, fork_aside
from artos.system.regular_file import opened

IDENTITY_FD = 100
"""Descriptor on which a template holds the identity file until it has read it."""
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
    """Sleeps until it is given an identity, with nothing open but the identity file and its log."""

    def __init__(self, identity_file: str) -> None:
        # First of all, so that no thread of user code inherits another mask and takes the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {WAKE})
        descriptor = os.open(identity_file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.dup2(descriptor, IDENTITY_FD, inheritable=False)
        os.close(descriptor)

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
    """The identity in the file behind a descriptor, from the file's start.

    Raises:
        NoIdentity: the file is empty or holds no identity.
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
    with opened(Path(log), "ab") as file:
        for descriptor in LOG:
            os.dup2(file.fileno(), descriptor)


class ForkServer:
    """Forks its own process; each child continues as the requested member.

    A request is a line of standard input, an ``Identity`` as JSON; the answer is a line of standard
    output, the child's process id. The child belongs to this process's parent, which must have
    asked for orphans (PR_SET_CHILD_SUBREAPER). Both streams are moved out of the way first, so
    what user code reads and prints never mixes with them.
    """

    def __init__(self, apart: str = "") -> None:
        self._apart = bool(apart)
        self._requests = os.fdopen(_moved(0, os.open(os.devnull, os.O_RDONLY)), "rb")
        self._answers = _moved(1, os.dup(2))

    def next(self) -> Identity | None:
        """Serve requests. Returns its identity in every child, and None here at the end."""
        for line in iter(self._requests.readline, b""):
            identity = msgspec.json.decode(line, type=Identity)
            child = fork_aside(apart=self._apart)
            if child == 0:
                self._close()
                return identity
            os.write(self._answers, b"%d\n" % child)
        self._close()
        return None

    def _close(self) -> None:
        self._requests.close()
        os.close(self._answers)


def _moved(descriptor: int, instead: int) -> int:
    """Move ``descriptor`` to another number, which is returned; ``instead`` takes its place."""
    moved = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return moved


def main() -> int:
    """Prepare, report, wait for an identity, serve as that actor; returns the exit status."""
    begin_member()
    kind, site, plan_file, *more = sys.argv[1:]
    source = ForkServer(*more) if kind == "fork" else Sleeper(*more)
    # Slow imports only now: if the parent dies meanwhile, this process ends too.
    from artos.runtime.serving import prepare_site, serve_prepared  # noqa: PLC0415

    prepared = prepare_site(site, plan_file, forks=kind == "fork")
    if prepared is None:
        return 3
    identity = source.next()
    if identity is None:
        return 0
    take_log(identity.log)
    return serve_prepared(prepared, identity.site, "fork" if kind == "fork" else "clone")


if __name__ == "__main__":
    sys.exit(main())
