"""The three ways a message travels: direct call, local queue, remote ZeroMQ (paper §4.2)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import PATIENCE
from named import LEARNER, acting

from artos.buffer.mailbox import Mailbox, mailbox_bytes
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import ShmFolder
from artos.errors import MailboxFull
from artos.protocol.invocations import Claim, Invoke, Stop, decode_to_member
from artos.protocol.steering import Call
from artos.specs.members import Member
from artos.transport.messenger import Messenger
from triggers import Firing
from triggers.engine import DirectPasser, direct_passers
from triggers.passers import QueuePasser, ZmqPasser

INVOKES = [
    Invoke(1, "learner.update", "update", (Claim(1, 0, 5), Claim(2, 5, 10)), progress=0.5),
    Invoke(2, "actors.sample", "sample", stop=8, bind=False),
]
SIZE = 512


@pytest.fixture
def box() -> Iterator[Path]:
    made = ShmFolder.create("passers")
    yield made.path / "box"
    made.remove()


def test_direct() -> None:
    got: list[Firing] = []
    firing = Firing((Claim(1, 0, 5),), trigger="learner.update", number=1, version=3)
    DirectPasser(got.append).pass_message(firing)
    assert got == [firing]


def test_direct_calls_tell_the_target_who_is_meant() -> None:
    got: list[tuple[Member, Invoke]] = []
    (actor,) = acting(2)
    passers = direct_passers(lambda *what: got.append(what), (LEARNER, actor))
    assert passers.keys() == {LEARNER, actor}
    passers[actor].pass_message(INVOKES[0])
    passers[LEARNER].pass_message(INVOKES[1])
    assert got == [(actor, INVOKES[0]), (LEARNER, INVOKES[1])]


def test_a_local_queue_is_read_where_its_memory_is_mapped(box: Path) -> None:
    segment = Segment.create(box, mailbox_bytes(SIZE))
    passer = QueuePasser(Mailbox(segment.memory, 0, SIZE, "peer", create=True))
    reader = Mailbox(Segment.attach(box).memory, 0, SIZE, "peer")
    for message in (*INVOKES, Stop()):
        passer.pass_message(message)
    got = [reader.get(0.0) for _ in range(3)]
    assert [decode_to_member(data) for data in got if data] == [*INVOKES, Stop()]


def pass_many(passer: QueuePasser) -> None:
    for _ in range(100):
        passer.pass_message(INVOKES[0])


def test_a_local_queue_nobody_reads_is_an_error(box: Path) -> None:
    segment = Segment.create(box, mailbox_bytes(SIZE))
    passer = QueuePasser(Mailbox(segment.memory, 0, SIZE, "peer", create=True))
    with pytest.raises(MailboxFull, match="peer"):
        pass_many(passer)


def test_zeromq_to_the_peer_that_is_meant(tmp_path: Path) -> None:
    came, calls = threading.Event(), [Call(*acting(0), invoke, 4) for invoke in INVOKES]
    with (
        Messenger.serve(f"ipc://{tmp_path}/s", None, lambda: None) as head,
        Messenger.connect(head.endpoint, None, "w2", came.set) as node,
    ):
        ZmqPasser(head, "w1").pass_message(Call(*acting(8), INVOKES[0]))
        for call in calls:  # it may not have been heard of yet
            ZmqPasser(head, "w2").pass_message(call)
        got: list[tuple[str, object]] = []
        while len(got) < len(calls):
            assert came.wait(PATIENCE), f"after {got}"
            came.clear()
            got += node.take()
    assert got == [("head", call) for call in calls]


def test_a_run_on_one_machine_needs_no_zeromq() -> None:
    loads = "import sys, deploy.local.run, triggers.engine; sys.exit('zmq' in sys.modules)"
    subprocess.run([sys.executable, "-c", loads], timeout=PATIENCE, check=True)
