"""Why nobody is reached: told from what ZeroMQ reports, and over real sockets."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from postbox import PATIENCE, calling, serving

from artos.transport.handshakes import Handshakes, LinkFault
from artos.transport.keys import Keys, make_keys, revoke
from artos.transport.roles import Holder, KeyRole

CONNECTED, GONE, AGAIN = zmq.EVENT_CONNECTED, zmq.EVENT_DISCONNECTED, zmq.EVENT_CONNECT_RETRIED
SHAKEN, FAILED = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
REFUSED, NONSENSE = zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
HUNG_UP = [(CONNECTED, 9), (FAILED, errno.EPIPE), (GONE, 9), (AGAIN, 100)]
MUTE = [(CONNECTED, 9), (FAILED, errno.EAGAIN), (GONE, 9), (AGAIN, 100)]
NOT_LET_IN = [(CONNECTED, 9), (REFUSED, 400), (GONE, 9)]
FINE = [(CONNECTED, 9), (SHAKEN, 0)]


@pytest.mark.parametrize(
    ("reports", "fault"),
    [
        ([], None),
        (FINE, None),
        ([(AGAIN, 100)] * 3, None),
        ([(AGAIN, 100)] * 4, LinkFault.NOBODY),
        ([(AGAIN, 100)] * 3 + FINE + [(GONE, 9)] + [(AGAIN, 100)] * 4, None),
        ([(AGAIN, 100)] * 9 + FINE, None),
        (HUNG_UP, None),
        (HUNG_UP * 2, LinkFault.OTHER_HEAD),
        (HUNG_UP + FINE + [(GONE, 9), (AGAIN, 100), *HUNG_UP], None),
        (MUTE * 5, None),
        (NOT_LET_IN, LinkFault.UNKNOWN_KEY),
        (NOT_LET_IN + FINE, None),
        ([(CONNECTED, 9), (NONSENSE, 1), (GONE, 9)], LinkFault.NO_HEAD),
        ([(CONNECTED, 9), (GONE, 9)], LinkFault.NO_HEAD),
    ],
)
def test_a_fault_is_known_by_what_happened(
    reports: list[tuple[int, int]], fault: LinkFault | None
) -> None:
    handshakes = Handshakes()
    for kind, number in reports:
        handshakes.happened(kind, number)
    assert handshakes.fault is fault


def test_where_nobody_even_refuses_one_try_is_enough_after_a_while() -> None:
    handshakes = Handshakes()
    handshakes.waited(60.0)
    assert handshakes.fault is None  # one try is under way, or has been let in and is not answered
    handshakes.happened(AGAIN, 100)
    handshakes.waited(1.0)
    assert handshakes.fault is None
    handshakes.waited(2.0)
    assert handshakes.fault is LinkFault.NOBODY


# -- over real sockets -----------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    make_keys(tmp_path / "keys", Holder(KeyRole.NODE, "w1"))
    return Keys.load(tmp_path / "keys")


@pytest.fixture
def head(keys: Keys) -> Iterator[str]:
    with serving("tcp://127.0.0.1:*", keys) as box:
        yield box.messenger.endpoint


def fault_at(endpoint: str, keys: Keys) -> LinkFault:
    """What a worker learns of why it reaches nobody; its doorbell is rung for that."""
    with calling(endpoint, keys) as box:
        assert box.rung.wait(PATIENCE)
        assert box.messenger.link_fault is not None
        return box.messenger.link_fault


def test_a_key_that_is_not_accepted(head: str, keys: Keys) -> None:
    revoke(keys.folder, Holder(KeyRole.NODE, "w1"))
    assert fault_at(head, keys) is LinkFault.UNKNOWN_KEY


def test_the_key_of_another_head(head: str, tmp_path: Path) -> None:
    make_keys(tmp_path / "others", Holder(KeyRole.NODE, "w1"))
    assert fault_at(head, Keys.load(tmp_path / "others")) is LinkFault.OTHER_HEAD


def test_nobody_listens(keys: Keys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert fault_at(f"tcp://127.0.0.1:{port}", keys) is LinkFault.NOBODY


def test_no_such_host(keys: Keys) -> None:
    assert fault_at("tcp://nowhere.invalid:7700", keys) is LinkFault.NOBODY


def test_sockets_do_not_cost_asyncio() -> None:
    """It takes 40 ms to import, in every process that has sockets."""
    code = (
        "import sys, artos.transport.messenger, artos.transport.doorkeeper, workers.agent.agent\n"
        "print([name for name in ('asyncio', 'ssl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
