"""The three ways a firing travels: direct call, local queue, remote ZeroMQ (checklist A17)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import zmq
from helpers import PATIENCE, python
from hypothesis import given
from hypothesis import strategies as st

from artos.buffer.mailbox import Mailbox, mailbox_bytes
from artos.buffer.segment import Segment, ShmFolder
from artos.errors import BadMessage, DeadlineExceeded, MailboxFull
from artos.messages import Claim
from triggers import Firing
from triggers.passers import DirectPasser, MessagePasser, QueuePasser, ZmqPasser, decode, encode

PEER = Path(__file__).with_name("passer_peer.py")
FIRINGS = [
    Firing((Claim(1, 0, 5), Claim(2, 5, 10)), trigger="learner.update", number=1, version=3),
    Firing(dropped=(Claim(0, 0, 1),), actors=(4, 5), rounds=2, keys=("a",), number=2),
    Firing(number=3),
]


def received(process: subprocess.Popen[str]) -> list[Firing]:
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in FIRINGS]
    assert process.wait(PATIENCE) == 0
    return [msgspec.json.decode(line, type=Firing) for line in lines]


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def pass_many(passer: MessagePasser, firing: Firing, times: int) -> None:
    for _ in range(times):
        passer.pass_message(firing)


@pytest.fixture
def folder() -> Iterator[Path]:
    made = ShmFolder.create("passers")
    yield made.path
    made.remove()


@pytest.fixture
def push(tmp_path: Path) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    address = f"ipc://{tmp_path}/firings"
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        yield socket, address


def test_direct() -> None:
    got: list[Firing] = []
    for firing in FIRINGS:
        DirectPasser(got.append).pass_message(firing)
    assert got == FIRINGS


@pytest.mark.processes
def test_local_queue_to_another_process(folder: Path) -> None:
    size = 4096
    segment = Segment.create(folder / "box", mailbox_bytes(size))
    passer = QueuePasser(Mailbox(segment.memory, 0, size, "peer", create=True))
    with python(PEER, "mailbox", folder / "box", size, len(FIRINGS)) as process:
        wait_until_ready(process)
        for firing in FIRINGS:
            passer.pass_message(firing)
        assert received(process) == FIRINGS


def test_a_local_queue_nobody_reads_is_an_error(folder: Path) -> None:
    segment = Segment.create(folder / "box", mailbox_bytes(256))
    passer = QueuePasser(Mailbox(segment.memory, 0, 256, "peer", create=True))
    with pytest.raises(MailboxFull, match="peer"):
        pass_many(passer, FIRINGS[0], 100)


@pytest.mark.processes
def test_zeromq_to_another_process(push: tuple[zmq.Socket[bytes], str]) -> None:
    socket, address = push
    passer = ZmqPasser(socket, seconds=30.0)
    with python(PEER, "zmq", address, len(FIRINGS)) as process:
        wait_until_ready(process)
        for firing in FIRINGS:
            passer.pass_message(firing)
        assert received(process) == FIRINGS


def test_zeromq_without_a_peer_gives_up(push: tuple[zmq.Socket[bytes], str]) -> None:
    passer = ZmqPasser(push[0], seconds=0.01)
    # The pipe to a peer that is not there holds some messages before it is full.
    with pytest.raises(DeadlineExceeded, match="room to send firing 3"):
        pass_many(passer, FIRINGS[2], 100_000)


COUNTS = st.integers(0, 2**40)
CLAIMS = st.lists(st.builds(Claim, COUNTS, COUNTS, COUNTS), max_size=3).map(tuple)


@given(
    st.builds(
        Firing, claims=CLAIMS, dropped=CLAIMS, rounds=COUNTS, version=COUNTS, number=COUNTS,
        actors=st.none() | st.lists(COUNTS, max_size=3).map(tuple), trigger=st.text(max_size=20),
    )
)  # fmt: skip
def test_what_is_encoded_is_decoded(firing: Firing) -> None:
    assert decode(encode(firing)) == firing


@given(st.binary(max_size=60))
def test_bytes_that_are_no_firing_are_refused(data: bytes) -> None:
    with suppress(BadMessage):
        assert isinstance(decode(data), Firing)
