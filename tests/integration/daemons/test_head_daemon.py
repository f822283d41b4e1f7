"""A real head daemon with peers that the test plays: who may talk, and what it makes of it."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import PATIENCE

from artos.errors import MailboxFull, Refused
from artos.protocol import control
from artos.protocol.data import Chunk, Nudge
from artos.protocol.message import Message, Refusal, Restarted
from artos.system.archives import PIECE, pack
from artos.system.logging_setup import logging_to
from artos.transport.keys import Keys, make_keys, revoke
from artos.transport.messenger import Messenger
from artos.transport.roles import Holder, KeyRole
from artos.version import VERSION
from head.daemon.daemon import HeadDaemon
from head.daemon.options import HeadOptions
from head.daemon.run import Run


class Peer:
    """A worker daemon, a user or something else that talks to the head."""

    def __init__(self, endpoint: str, keys: Path | None, me: str) -> None:
        self.me, self.rung = me, threading.Event()
        self.messenger = Messenger.connect(
            endpoint, Keys.load(keys) if keys else None, me, self.rung.set
        )
        self.heard: list[Message] = []

    def say(self, message: Message) -> None:
        self.messenger.send("head", message)

    def listen(self) -> None:
        self.heard += [message for _, message in self.messenger.take()]

    def last(self, kind: type[Message]) -> Message | None:
        return next((m for m in reversed(self.heard) if isinstance(m, kind)), None)


class Head:
    """A head daemon whose turns the test takes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.keys = folder / "keys"
        make_keys(self.keys)
        self.said: list[str] = []
        stack.enter_context(logging_to(self.said.append))
        self.daemon: HeadDaemon | None = None
        self.start("tcp://127.0.0.1:*")

    def start(self, listen: str, deadline: float = 15.0) -> None:
        options = HeadOptions(listen, self.keys, self.folder / "runs", deadline)
        self.daemon = self._stack.enter_context(HeadDaemon(options))
        self.endpoint = self.daemon.endpoint

    def stop(self) -> None:
        assert self.daemon is not None
        self.daemon.close()

    def peer(self, me: str, keys: Path | None = None) -> Peer:
        peer = Peer(self.endpoint, keys or self.keys, me)
        self._stack.callback(peer.messenger.close, 0.0)
        return peer

    def until(self, condition: Callable[[], object], *peers: Peer) -> None:
        assert self.daemon is not None
        end = time.monotonic() + PATIENCE
        while True:
            self.daemon.turn()
            for peer in peers:
                peer.listen()
            if condition():
                return
            assert time.monotonic() < end, "\n".join(self.said)
            time.sleep(0.005)

    def ask(self, user: Peer, message: Message) -> Any:
        """The answer, which has the number of the question."""
        user.heard.clear()
        number = secrets.randbits(32)
        user.say(msgspec.structs.replace(message, number=number))
        self.until(lambda: user.heard, user)
        (answer,) = user.heard
        assert isinstance(answer, control.Answer | control.FilePiece)
        assert answer.number == number
        return answer

    def told(self, user: Peer, message: Message) -> dict[str, Any]:
        """The answer to a message as JSON has it."""
        return plain_of(self.ask(user, message))

    def nodes(self, user: Peer) -> dict[str, dict[str, object]]:
        return {n["name"]: n for n in self.told(user, control.ReadStatus())["nodes"]}


def plain_of(answer: control.Answer | control.FilePiece) -> dict[str, Any]:
    match answer:
        case control.FilePiece():
            return {}
        case control.RunAnswer(run=run):
            return run.plain
        case control.ClusterAnswer(cluster=cluster):
            return cluster.plain
    return answer.data


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path, stack)


def hello(node: str, **changes: object) -> control.Hello:
    facts = {"protocol": control.PROTOCOL, "version": VERSION, "slots": 2, **changes}
    return control.Hello(node, **facts)  # type: ignore[arg-type]


def joined(head: Head, node: str) -> Peer:
    peer = head.peer(f"{node}/{secrets.token_hex(2)}")
    peer.say(hello(node))
    head.until(lambda: peer.last(control.Welcome), peer)
    return peer


def test_a_worker_that_has_ended_is_said_to_have(head: Head) -> None:
    joined(head, "w1").messenger.close(0.0)
    head.until(lambda: any(line.endswith("gone (its worker has ended): w1") for line in head.said))


# -- who may talk ----------------------------------------------------------------------------------


def test_a_worker_is_welcomed_and_listed(head: Head) -> None:
    joined(head, "w1")
    node = head.nodes(head.peer("user:owner/1"))["w1"]
    assert (node["alive"], node["slots"], node["actors"]) == (True, 2, 0)


@pytest.mark.parametrize("change", [{"protocol": control.PROTOCOL + 1}, {"version": "99.1"}])
def test_another_version_is_told_both(change, head: Head) -> None:
    peer = head.peer("w1/a")
    peer.say(hello("w1", **change))
    head.until(lambda: peer.heard, peer)
    (refusal,) = peer.heard
    assert isinstance(refusal, Refusal)
    for named in (VERSION, f"protocol {control.PROTOCOL}", *map(str, change.values())):
        assert named in refusal.why
    assert head.nodes(head.peer("user:owner/1")) == {}


def test_a_second_worker_of_a_name_is_refused_until_the_first_is_gone(head: Head) -> None:
    first, second = joined(head, "w1"), head.peer("w1/other")
    second.say(hello("w1"))
    head.until(lambda: second.heard, second)
    assert "w1 is alive" in second.heard[0].why
    first.say(control.Bye())
    head.until(lambda: first.last(control.Bye), first)
    second.say(hello("w1"))
    head.until(lambda: second.last(control.Welcome), second)


def test_who_has_other_keys_gets_nothing(head: Head, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    make_keys(foreign)
    (foreign / "head.key").write_bytes((head.keys / "head.key").read_bytes())
    stranger = head.peer("w1/a", foreign)
    stranger.say(hello("w1"))
    friend = head.peer("user:owner/1")
    for _ in range(20):
        assert head.nodes(friend) == {}
    stranger.listen()
    assert stranger.heard == []


def test_a_revoked_key_gets_nothing_any_more(head: Head) -> None:
    make_keys(head.keys, Holder(KeyRole.NODE, "w1"))
    friend = head.peer("user:owner/1")
    peer = Peer(head.endpoint, head.keys, "w1")
    head._stack.callback(peer.messenger.close, 0.0)
    peer.say(hello("w1"))
    head.until(lambda: peer.last(control.Welcome), peer)
    revoke(head.keys, Holder(KeyRole.NODE, "w1"))
    peer.heard.clear()
    peer.say(control.Bye())
    for _ in range(20):
        assert head.nodes(friend)["w1"]["alive"]
    peer.listen()
    assert peer.heard == []


@pytest.mark.parametrize(
    ("me", "message"),
    [("w1", control.Submit({"ticket": "t", "workload": "ppo", "run_dir": "../x"})),
     ("w1", control.StopRun("r1")), ("w1", control.Archive("0" * 64, b"x")),
     ("user:owner/2", control.Hello("w1", control.PROTOCOL, VERSION, 2)),
     ("user:owner/2", control.FetchArchive("0" * 64)), ("user:owner/2", control.Bye())],
)  # fmt: skip
def test_a_role_is_refused_what_is_the_others(
    me: str, message: Message, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, peer = head.peer("user:owner/1"), head.peer(me)
    before = head.told(user, control.ListRuns()), head.nodes(user)
    assert head.daemon is not None
    api = head.daemon._client_api
    monkeypatch.setattr(api, "take_request", lambda peer, asked: pytest.fail(peer))
    peer.say(message)
    head.until(lambda: peer.heard, peer)
    monkeypatch.undo()
    (refusal,) = peer.heard
    assert isinstance(refusal, Refusal)
    assert f"may not send {type(message).__name__}" in refusal.why
    assert (head.told(user, control.ListRuns()), head.nodes(user)) == before


def test_a_node_speaks_for_itself_only(head: Head) -> None:
    """Also one with the common key: what it says of its name must be what it is called."""
    first, other = joined(head, "w1"), head.peer("w2/a")
    other.say(hello("w1", replaces=first.me))
    head.until(lambda: other.heard, other)
    assert "w2/a does not belong to node 'w1'" in other.heard[0].why
    assert head.nodes(head.peer("user:owner/1")).keys() == {"w1"}
    first.say(control.FetchArchive("0" * 64))
    head.until(lambda: first.last(control.ArchivePiece), first)


@pytest.mark.parametrize(
    "message",
    [Chunk(0, 1, 0, 5, ("a",), (1,), (False,)), control.Welcome(1, "1", 1.0), Nudge(),
     control.RunUp("r", 1, 1, b"", "", "", "", 1), control.RunScaled(1, 2)],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_what_has_no_business_here_is_refused_and_changes_nothing(message, head: Head) -> None:
    peer, user = joined(head, "w1"), head.peer("user:owner/1")
    before = head.told(user, control.ListRuns())
    peer.say(message)
    head.until(lambda: peer.last(Refusal), peer)
    assert type(message).__name__ in peer.last(Refusal).why
    assert head.told(user, control.ListRuns()) == before
    assert head.nodes(user)["w1"]["alive"]


def test_words_of_a_node_that_never_greeted_change_nothing(head: Head) -> None:
    peer, user = head.peer("w9/a"), head.peer("user:owner/1")
    for message in (
        control.ExecutorEnded("r", 1, "x"),
        control.Leaving("x"),
        control.Bye(),
        control.Load(),
    ):
        peer.say(message)
    peer.say(Nudge())  # answered: so those before were read
    head.until(lambda: peer.heard, peer)
    assert head.nodes(user) == {}


# -- what users ask --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (control.ReadStatus("r9"), "no run 'r9'"),
        (control.ReadLogs("r9"), "no run 'r9'"),
        (control.StopRun("r9"), "no run 'r9'"),
        (control.ScaleRun("r9", 3), "no run 'r9'"),
        (control.DrainNode("w9"), "no node 'w9'"),
        (control.UndrainNode("w9"), "no node 'w9'"),
        (control.ReclaimNode("w9", 1.0), "no node 'w9'"),
        (control.Submit({}), "ticket"),
        (control.Submit({"ticket": "1"}), "name a workload"),
        (control.Submit({"ticket": "1", "workload": "ppo", "seed": "x"}), "seed"),
        (control.Submit({"ticket": "1", "workload": "ppo", "nonsense": 1}), "nonsense"),
        (control.Submit({"ticket": "1", "workload": "ppo"}, placement="heap"), "spread, pack"),
        (control.Submit({"ticket": "1", "resume": "r9"}), "no run 'r9'"),
        (control.Archive("0" * 64, b"x"), "damaged"),
    ],
)
def test_a_question_that_is_wrong_is_answered_in_words(ask, words, head: Head) -> None:
    answer = head.ask(head.peer("user:owner/1"), ask)
    assert words in answer.fault
    assert answer.data == {}


def test_code_is_asked_for_once(head: Head, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    name, content = pack(folder)
    user, worker = head.peer("user:owner/1"), joined(head, "w1")
    request = {"ticket": "t", "workload": "a.py:x"}
    assert head.ask(user, control.Submit(request, name)).missing == name
    assert head.ask(user, control.Archive(name, content)).fault == ""
    assert fetched(head, worker, name) == control.ArchivePiece(name, 0, len(content), content)
    assert fetched(head, worker, "0" * 64) == control.ArchivePiece("0" * 64)


def fetched(head: Head, worker: Peer, name: str, offset: int = 0) -> control.ArchivePiece:
    worker.heard.clear()
    worker.say(control.FetchArchive(name, offset))
    head.until(lambda: worker.last(control.ArchivePiece), worker)
    piece = worker.last(control.ArchivePiece)
    assert isinstance(piece, control.ArchivePiece)
    return piece


def test_of_code_that_nodes_fetch_the_head_holds_little(head: Head, tmp_path: Path) -> None:
    """A piece for each node, however large the code is."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "large.bin").write_bytes(os.urandom(3 * PIECE))
    name, content = pack(folder)
    user, workers = head.peer("user:owner/1"), [joined(head, f"w{n}") for n in range(3)]
    assert not head.ask(user, control.Archive(name, content)).fault
    for worker in workers:
        came = b""
        while len(came) < len(content):
            piece = fetched(head, worker, name, len(came))
            assert 0 < len(piece.content) <= PIECE
            assert (piece.offset, piece.size) == (len(came), len(content))
            came += piece.content
        assert came == content
    assert fetched(head, workers[0], name, 10 * len(content)).content == b""


def test_code_that_cannot_be_read_is_said_not_to_be_there(head: Head, tmp_path: Path) -> None:
    """Else the executor that needs it would be waited for without end."""
    worker = joined(head, "w1")
    (head.folder / "runs" / ".head" / "code" / f"{'0' * 64}.tar").mkdir(parents=True)
    assert fetched(head, worker, "0" * 64).size == 0


def test_a_worker_that_has_lost_what_it_was_told_is_told_again(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns of that, and says hello again: who is told of nothing waits without end."""
    worker = joined(head, "w1")
    worker.heard.clear()
    worker.messenger.forget("head")  # as after a fault in its messenger
    head.until(lambda: worker.last(Restarted), worker)

    def full(*_: object) -> None:
        raise MailboxFull("to w1", 1)

    worker.say(hello("w1"))
    head.until(lambda: worker.last(control.Welcome), worker)
    worker.heard.clear()
    assert head.daemon is not None
    with monkeypatch.context() as patch:
        patch.setattr(head.daemon._messenger, "send", full)
        worker.say(control.FetchArchive("0" * 64))
        head.until(lambda: worker.last(Restarted), worker)


def test_code_stays_that_a_run_needs_to_go_on(head: Head, tmp_path: Path) -> None:
    kept, names = head.folder / "runs" / ".head" / "code", []
    user, code = head.peer("user:owner/1"), tmp_path / "user"
    code.mkdir()
    for number in range(18):
        (code / "a.py").write_text(f"x = {number}\n")
        name, content = pack(code)
        names.append(name)
        assert not head.ask(user, control.Archive(name, content)).fault
        if number < 2:
            os.utime(kept / f"{name}.tar", (1.0, 1.0))
        if number == 0:
            over = Run("r1", {}, str(head.folder / "runs" / "r1"), name, state="done")
            head.daemon._scheduler.submit(over)  # type: ignore[union-attr]
    assert [(kept / f"{name}.tar").exists() for name in names[:3]] == [True, False, True]


def test_asking_again_does_not_submit_again(head: Head) -> None:
    """An answer may get lost with a head; what it was about is not."""
    assert head.daemon is not None
    head.daemon._scheduler.submit(Run("r1", {"ticket": "t1"}, "/runs/r1", state="done"))
    user = head.peer("user:owner/1")
    answer = head.ask(user, control.Submit({"ticket": "t1", "workload": "ppo"}))
    assert answer.data == {"run": "r1", "folder": "/runs/r1"}
    assert len(head.told(user, control.ListRuns())["runs"]) == 1


def saved(head: Head) -> bytes:
    folder = head.folder / "runs" / ".head"
    return b"".join(file.read_bytes() for file in folder.glob("state.sqlite*"))


# -- a head that is started again ------------------------------------------------------------------


def test_the_next_head_waits_for_the_nodes_of_the_last(head: Head) -> None:
    peer, user = joined(head, "w1"), head.peer("user:owner/1")
    assert head.told(user, control.DrainNode("w1"))["node"] == "w1"
    head.stop()
    head.start(head.endpoint)
    user = head.peer("user:owner/2")
    assert head.nodes(user)["w1"]["alive"]
    head.until(lambda: peer.last(Restarted), peer)  # so it greets again
    peer.say(hello("w1"))
    peer.heard.clear()
    head.until(lambda: peer.last(control.Welcome), peer)
    assert head.nodes(user)["w1"]["leaves"] == "it is drained"


def test_a_node_is_drained_until_it_was_told_to_go(head: Head) -> None:
    joined(head, "w1")
    user = head.peer("user:owner/1")
    assert head.told(user, control.UndrainNode("w1")) == {"node": "w1"}, "as it is"
    head.told(user, control.DrainNode("w1"))
    assert "start its worker again" in head.ask(user, control.UndrainNode("w1")).fault
    assert head.nodes(user)["w1"]["leaves"] == "it is drained"


def test_a_node_is_told_how_long_its_machine_still_is_there(head: Head) -> None:
    """Each time: it leaves by itself, and says so."""
    peer, user = joined(head, "w1"), head.peer("user:owner/1")
    for seconds in (20.0, 17.0):
        assert head.told(user, control.ReclaimNode("w1", seconds)) == {"node": "w1"}
        head.until(lambda: peer.last(control.Leave), peer)
        assert peer.last(control.Leave).seconds == seconds
        peer.heard.clear()
    assert not head.nodes(user)["w1"]["leaves"]


def test_nodes_that_do_not_come_back_are_gone(head: Head) -> None:
    joined(head, "w1").messenger.close(0.0)
    head.stop()
    head.start(head.endpoint, deadline=0.5)
    head.until(lambda: any("gone" in line for line in head.said))
    assert not head.nodes(head.peer("user:owner/1"))["w1"]["alive"]


def test_a_full_disk_stops_neither_answers_nor_the_head(head: Head, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    user = head.peer("user:owner/1")
    monkeypatch.setattr("head.daemon.rows.put", full)
    monkeypatch.setattr("artos.system.archives.Archives.put", full)
    peer = joined(head, "w1")
    assert any("No space left" in line for line in head.said)
    answer = head.ask(user, control.Archive("0" * 64, bytes(1024)))
    assert "No space left" in answer.fault
    monkeypatch.undo()
    head.until(lambda: b"w1" in saved(head), peer)


def test_runs_have_one_head(head: Head) -> None:
    with pytest.raises(Refused, match="another head"):
        head.start("tcp://127.0.0.1:*")


def test_a_head_ends_that_another_has_replaced_while_it_was_cut_off(head: Head) -> None:
    assert head.daemon is not None
    head.daemon.run(lambda: "tcp://10.0.0.2:7700 on elsewhere")
    assert any("tcp://10.0.0.2:7700 on elsewhere has taken over" in line for line in head.said)
    head.stop()
    assert (head.folder / "runs" / ".head" / "ipc").exists(), "it is the other's"


def test_a_damaged_state_file_is_refused_and_kept(head: Head) -> None:
    joined(head, "w1")
    head.stop()
    file = head.folder / "runs" / ".head" / "state.sqlite"
    assert b"w1" in file.read_bytes()
    file.write_bytes(b"no SQLite")
    with pytest.raises(Refused, match=r"state\.sqlite is damaged"):
        head.start("tcp://127.0.0.1:*")
    assert file.read_bytes() == b"no SQLite"
