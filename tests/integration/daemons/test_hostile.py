"""Whatever a key holder sends and a run turns out to be: it is refused, counted, and no more."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import zmq
from test_archive import HOSTILE as ARCHIVES
from test_archive import file, tar
from test_head_daemon import Head, hello, joined

from artos.protocol import codec, control
from artos.protocol.message import Refusal
from artos.protocol.views import ClusterView
from artos.system.archives import name_of
from artos.transport import sockets
from artos.transport.channel import Envelope, framed
from artos.transport.keys import Keys
from artos.transport.roles import SAYS, KeyRole
from deploy.client.overview import cluster, text
from head.daemon import rows
from head.daemon.run import Run, State
from head.daemon.store import Store


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path, stack)


@contextmanager
def raw(head: Head, me: str) -> Iterator[sockets.Socket]:
    """A socket with a good key that says what it likes."""
    context: sockets.Context = zmq.Context()
    try:
        with closing(sockets.connect(context, head.endpoint, Keys.load(head.keys), me)) as socket:
            yield socket
    finally:
        context.destroy(linger=0)


def lives(head: Head, malformed: int = 0, faults: int = 0) -> ClusterView:
    answer = head.ask(head.peer(f"user:owner/{time.monotonic_ns()}"), control.ReadStatus())
    assert isinstance(answer, control.ClusterAnswer)
    found = answer.cluster
    assert (found.malformed, found.faults) == (malformed, faults), head.said
    return found


FRAMES = {
    "a session that overflows": struct.pack(">BxxQQQQ?", 0xC1, 5, 2**64 - 1, 0, 0, False),
    "a field of arrays in arrays": b"\x82\xa4type\xa7Refusal\xa1x" + b"\x91" * 5000 + b"\xc0",
    "the last of all lives": framed(Envelope(5, 2**62 - 1)),
    "arrays in arrays": b"\x91" * 5000 + b"\xc0",
    "maps in maps": b"\x81\x01" * 5000 + b"\xc0",
    "no envelope": codec.encode(control.Bye()),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_of_a_key_holder_ends_in_a_refusal(kind: str, head: Head) -> None:
    with raw(head, "evil.1") as socket:
        socket.send(FRAMES[kind])
        head.until(lambda: socket.poll(0))
        assert isinstance(codec.decode(socket.recv()), Refusal)
    assert lives(head, malformed=1).nodes == ()


@pytest.mark.parametrize(
    "message",
    [
        control.FetchArchive("a\0b"),
        control.FetchArchive("../../etc/passwd"),
        control.Submit({"ticket": "t", "workload": "ppo"}, "a\0b"),
        control.Submit({"ticket": "t", "workload": "ppo"}, placement="\x1b[2J"),
        control.Hello("\x1b[31mred", control.PROTOCOL, "1", 2),
        control.Hello("w1", control.PROTOCOL, "1", 0),
        control.Hello("w1", control.PROTOCOL, "1", 2, runs_per_slot=0),
        control.Hello("w1", control.PROTOCOL, "1", 2**63),
        control.Load(cpu=float("nan")),
        control.ReadLogs("r", -(2**63)),
        control.ExecutorEnded("..", 1, "x"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_that_fits_no_range_ends_in_a_refusal(message, head: Head) -> None:
    peer = joined(head, "w0")
    if type(message) in SAYS[KeyRole.USER]:
        peer = head.peer("user:owner/1")
    peer.say(message)
    head.until(lambda: peer.last(Refusal), peer)
    assert [node.name for node in lives(head, malformed=1).nodes] == ["w0"]


@pytest.mark.parametrize(
    "request_",
    [
        {"run_dir": "a\0b"}, {"run_dir": "x" * 243}, {"workload": "p\0"}, {"resume": "a\0b"},
        {"settings": {"env": "e" * 300}}, {"deadline": -1.0}, {"seed": 2, "settings": {"a\0": 1}},
    ],
    ids=",".join,
)  # fmt: skip
def test_a_submission_that_can_have_no_folder_is_answered(request_, head: Head) -> None:
    answer = head.ask(
        head.peer("user:owner/1"), control.Submit({"ticket": "t", "workload": "ppo", **request_})
    )
    assert answer.fault
    assert lives(head).runs == ()


@pytest.mark.parametrize("kind", ARCHIVES)
def test_who_submits_an_archive_that_cannot_be_is_told_why(kind: str, head: Head) -> None:
    content = ARCHIVES[kind]
    answer = head.ask(head.peer("user:owner/1"), control.Archive(name_of(content), content))
    assert "archive" in answer.fault
    assert [*(head.folder / "runs" / ".head").glob("code/*")] == []
    assert lives(head).runs == ()


def submitted(head: Head, name: str) -> None:
    content = tar(file("a.py"))
    user = head.peer("user:owner/1")
    assert not head.ask(user, control.Archive(name_of(content), content)).fault
    request = {"ticket": name, "workload": "a.py:x", "run_dir": name}
    assert not head.ask(user, control.Submit(request, name_of(content))).fault


def outcome_of(head: Head, run: str) -> dict[str, object]:
    user = head.peer("user:owner/2")
    head.until(lambda: head.told(user, control.ReadStatus(run))["outcome"])
    return head.told(user, control.ReadStatus(run))


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("a\x1bb")])
def test_a_run_whose_code_cannot_be_unpacked_fails_alone(error, head: Head, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("artos.system.archives.unpack", fails)
    submitted(head, "r1")
    status = outcome_of(head, "r1")
    assert status["outcome"] in ("refused", "failed")
    assert str(error.args[-1]).replace("\x1b", "\\x1b") in str(status["why"])
    lives(head, faults=isinstance(error, ValueError))


POISONED = [
    Run("r1", {"ticket": "t", "workload": "ppo"}, "runs/a\0b"),
    Run("r2", {"ticket": "u", "workload": "ppo"}, "x/" + "y" * 300),
    Run("r3", {}, "runs/r3", "a\0b"),
    Run("r4", {}, "runs/r4", "../x"),
    Run("r\0/5", {}, "runs/r5"),
    Run("r6", {}, "a\0b", state="running", epoch=3),
    Run("r7", {}, "runs/r7", state="nonsense", places={-5: "nowhere"}),
]


def test_a_state_file_full_of_poison_fails_its_runs_and_no_more(head: Head) -> None:
    head.stop()
    with Store(head.folder / "runs" / ".head") as store:
        store.load()
        store.save(rows.all_of(State(tuple(POISONED))))
    head.start("tcp://127.0.0.1:*")
    joined(head, "w1")
    user = head.peer("user:owner/1")

    def states() -> list[str]:
        return [run["state"] for run in head.told(user, control.ListRuns())["runs"]]

    head.until(lambda: states() == ["failed"] * 6 + ["nonsense"])
    head.stop()
    head.start("tcp://127.0.0.1:*")
    user = head.peer("user:owner/2")
    assert states() == ["failed"] * 6 + ["nonsense"]


def test_a_fault_in_the_head_is_told_counted_and_shown(head: Head, monkeypatch) -> None:
    peer = joined(head, "w1")

    def broken(*_: object) -> None:
        raise KeyError("\x1b[2J")

    with monkeypatch.context() as patch:
        patch.setattr("head.daemon.roster.Roster.load", broken)
        peer.say(control.Load())
        head.until(lambda: peer.last(Refusal), peer)
    assert "KeyError" in peer.last(Refusal).why
    assert any("Traceback" in line for line in head.said)
    shown = text(cluster(lives(head, faults=1)))
    assert "the head survived 1 faults, 0 malformed messages" in shown


def test_a_fault_at_the_end_of_a_run_is_that_runs_failure(head: Head, monkeypatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no end")

    monkeypatch.setattr("head.daemon.run_host.RunHost.ended", broken)
    submitted(head, "r1")
    user = head.peer("user:owner/2")
    over = lambda: head.told(user, control.ReadStatus("r1"))["state"] == "failed"  # noqa: E731
    head.until(over)
    lives(head, faults=1)


def test_what_workers_and_runs_say_is_shown_and_not_obeyed(head: Head) -> None:
    peer = joined(head, "w1")
    peer.say(control.Leaving("[bold]\x1b[2J[/nonsense]\nartos: all is well"))
    head.until(lambda: lives(head).nodes[0].leaves, peer)
    shown = text(cluster(lives(head)))
    assert "\x1b" not in shown
    assert "[bold]\\x1b[2J[/nonsense]\\nartos" in shown.replace("\n", "").replace(" ", "")[:10_000]


def test_a_hello_of_a_thousand_names_is_bounded(head: Head) -> None:
    peer = head.peer("w1/a")
    peer.say(hello("w1", runs={f"r{n}": n for n in range(1000)}))
    head.until(lambda: peer.last(control.Welcome), peer)
    lives(head)
