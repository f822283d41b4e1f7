"""Where a head listens: an endpoint, or a file in which the head says at which one.

A head that an engine places somewhere listens at a free port and writes down where. Who has that
file finds it again after the engine has placed it elsewhere.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from artos.errors import Refused
from artos.system.durable import write_durably
from artos.system.regular_file import contents
from artos.version import VERSION

FILE = "file:"
"""What the address of a head begins with that is to be read from a file."""
_ANYWHERE = "192.0.2.1"
"""An address that is no one's (RFC 5737); nothing is sent to it."""
_ENDPOINT = re.compile(r"tcp://[^\s/]+:(\*|[0-9]{1,5})")
MOST_PORT = 65_535
_WHY = {
    errno.EADDRINUSE: "something listens there already; choose another port, or 0 for a free one",
    errno.EADDRNOTAVAIL: "no network of this machine has that address",
    errno.EACCES: "ports below 1024 are for root",
}


class Published(msgspec.Struct, frozen=True):
    """What a head writes down."""

    endpoint: str
    """tcp://IP:PORT."""
    host: str = ""
    version: str = ""
    """The version of ARTOS that it runs."""
    pid: int = 0
    runs: str = ""
    """The folder of its runs."""


def is_endpoint(text: str) -> bool:
    """Whether it is tcp://HOST:PORT; ZeroMQ takes a port above 65535 for another one."""
    found = _ENDPOINT.fullmatch(text)
    return found is not None and (found[1] == "*" or int(found[1]) <= MOST_PORT)


def cannot_listen(address: str, error: Exception) -> Refused:
    """What to refuse an address with at which a socket could not listen, for that ``error``."""
    words = str(getattr(error, "strerror", None) or error)
    known = {} if address.startswith("ipc:") else _WHY  # those are files
    why = known.get(getattr(error, "errno", 0)) or words.partition(" (")[0]
    return Refused([f"cannot listen on {address}: {why}"])


def endpoint_of(head: str) -> str:
    """The endpoint of a head; of ``file:PATH``, the one that is written there now.

    Raises:
        Refused: nothing, or nothing that a head has written, is there.
    """
    return published_in(Path(head.removeprefix(FILE))).endpoint if head.startswith(FILE) else head


def published_in(path: Path) -> Published:
    """What the head of this file has written.

    Raises:
        Refused: no head has written it.
    """
    try:
        return msgspec.json.decode(contents(path), type=Published)
    except FileNotFoundError:
        raise Refused([f"no head has written its address into {path}: is it running?"]) from None
    except OSError as error:
        raise Refused([f"{path}: {error.strerror}"]) from error
    except msgspec.DecodeError as error:
        raise Refused([f"{path} holds no address of a head: {error}"]) from error


@contextmanager
def published(
    path: Path | None, endpoint: str, runs: Path | None = None
) -> Iterator[Callable[[], str]]:
    """Write an endpoint of this machine into ``path``, for its user alone, within the block.

    The block gets what says which head of the same ``runs`` has written its own there since; "" if
    none has.

    Raises:
        Refused: it cannot be written.
    """
    if path is None:
        yield str
        return
    where = str(runs.resolve()) if runs else ""
    mine = Published(reachable(endpoint), socket.gethostname(), VERSION, os.getpid(), where)
    try:
        write_durably(path, msgspec.json.encode(mine), 0o600)
    except OSError as error:
        raise Refused([f"--publish {path}: {error.strerror}"]) from error

    def successor() -> str:
        with suppress(Refused):
            if (now := published_in(path)) != mine and now.runs == mine.runs:
                return f"{now.endpoint} on {now.host}"
        return ""

    try:
        yield successor
    finally:
        with suppress(Refused, OSError):  # another head may have taken over
            if published_in(path) == mine:
                path.unlink()


def reachable(endpoint: str) -> str:
    """The endpoint as others reach it: one that listens everywhere has this machine's address."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if host in ("0.0.0.0", "*", "[::]"):
        return f"tcp://{_own_address()}:{port}"
    return endpoint


def address_towards(endpoint: str) -> str:
    """This machine's address on the way to tcp://IP:PORT, as a part of an endpoint.

    Nothing is sent.

    Raises:
        OSError: there is no way to it.
    """
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host.strip("[]"), int(port)))
        found = str(probe.getsockname()[0])
    return f"[{found}]" if family == socket.AF_INET6 else found


def _own_address() -> str:
    """That of this machine's name, unless it is a loopback one; else that of the default route."""
    with suppress(OSError):
        found = {
            info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        }
        for address in sorted(map(str, found)):
            if not ipaddress.ip_address(address).is_loopback:
                return address
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((_ANYWHERE, 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"
