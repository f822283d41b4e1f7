"""Links that break or stand still, peers that talk nonsense: nothing is lost, nothing taken in."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest
import zmq
from relay import Relay
from strangers import strangers
from test_processes import await_version, dual_stage, weights_of
from two_nodes import PATIENCE, Head, Worker, run_until, two_nodes

from artos.clock import Deadline
from artos.protocol import codec
from artos.protocol.data import Chunk, Greet, Nudge, Pull, RowsTaken, Weights
from artos.protocol.message import Message, Refusal
from artos.transport import sockets
from artos.transport.keys import Keys, make_keys, revoke
from artos.transport.roles import Holder, KeyRole

pytestmark = pytest.mark.processes


@contextmanager
def relayed(tmp: Path) -> Iterator[tuple[Head, Worker, Relay]]:
    """Head and worker with a relay between them."""
    plan, table = dual_stage()
    keys = tmp / "keys"
    make_keys(keys)
    with Head(plan, tmp, keys) as head:
        head.host.start()
        with Relay(head.host.endpoint) as relay:
            actors, endpoint = range(plan.actors), relay.endpoint
            with Worker(plan, table, tmp, keys, head, actors, endpoint=endpoint) as worker:
                worker.host.start()
                worker.place(head)
                yield head, worker, relay


def test_connections_that_break_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with relayed(tmp_path) as (head, worker, relay):
        for rows in range(80, 500, 60):
            run_until(head, worker, rows, at_once=20)
            worker.write(20)
            relay.cut()
        run_until(head, worker, 520, at_once=20)
        assert worker.host.finish(PATIENCE) == {}


@pytest.mark.long
def test_a_link_that_stands_still_costs_time_only(tmp_path: Path) -> None:
    with relayed(tmp_path) as (head, worker, relay):
        run_until(head, worker, 80, at_once=20)
        relay.hold()
        worker.write(20)
        deadline, before = Deadline(6.0), relay.passed  # longer than heartbeats put up with
        while not deadline.passed:
            head.board.doorbell.wait(deadline.left)
            head.consume()
        assert relay.passed == before
        relay.resume()
        run_until(head, worker, 300, at_once=20)


def test_a_slow_node_skips_versions(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        head.publish(0)
        await_version(head, worker, 0)
        agent = worker.host.pids()["agent"]
        os.kill(agent, signal.SIGSTOP)
        for version in range(1, 21):
            head.publish(version)
        os.kill(agent, signal.SIGCONT)
        await_version(head, worker, 20)
        assert weights_of(worker) == (20, 20)
        one = worker.model.newest.arrays["params"].nbytes
        # The first, what was under way when it fell asleep, and the last.
        assert worker.host.wire_bytes < 4 * one


def test_an_agent_of_another_life_of_the_run_ships_nothing(tmp_path: Path) -> None:
    plan, table = dual_stage()
    with two_nodes(tmp_path, plan, table) as (head, worker):
        assert worker.host.finish(PATIENCE) == {}
        with Worker(plan, table, tmp_path, tmp_path / "keys", head, [0], "late", epoch=2) as late:
            late.host.start()
            late.host.terms({0: 1})
            late.write(40)
            assert late.host.finish(2.0) == {0: 40}
        assert head.blocks[0].written == 0


def nonsense(start: int) -> list[list[bytes]]:
    """Messages that no agent sends, about five rows from ``start`` on that would be taken."""
    rows, raw = 5, 5 * 2 * 8
    good = Chunk(0, 1, start, start + rows, ("rewards",), (raw,), (False,))

    def bad(size: int, **change: object) -> list[bytes]:
        chunk = msgspec.structs.replace(good, **{"sizes": (size,), **change})
        return [codec.encode(chunk, bytes(size))]

    return [
        [b""],
        [b"nonsense"],
        [codec.encode(Nudge())],
        [codec.encode(good)],
        bad(raw - 1),
        bad(raw, packed=(True,)),
        bad(raw, keys=("nothing",)),
        bad(raw, actor=99),
        bad(raw, sizes=(raw - 1,)),
        bad(raw, sizes=(-1, raw + 1)),
        bad(raw, sizes=()),
        [*bad(raw), b"another frame"],
        [codec.encode(good)[:20]],
        [b"\xc1\xff\xff\xff\xff"],
        [b"\xc1"],
        bad(raw, term=9),
        bad(raw * 100, stop=start + 500, raw=(raw * 100,)),
        [codec.encode(Greet("node", 7, {0: 1}))],
    ]


@contextmanager
def called(head: Head, keys: Keys, me: str) -> Iterator[zmq.Socket[bytes]]:
    """A connection to the replay process of a head."""
    with (
        zmq.Context() as context,
        sockets.connect(context, head.host.endpoint, keys, me) as socket,
    ):
        for option in (zmq.SNDTIMEO, zmq.RCVTIMEO):
            socket.setsockopt(option, int(PATIENCE * 1000))
        yield socket


@pytest.mark.parametrize(
    ("key", "me", "why"),
    [("users/owner", "user:owner", "a user may not send"),
     ("nodes/w9", "node", "key of node w9 and not of node node"),
     ("nodes/w9", "w9", "does not belong to node 'node'")],
)  # fmt: skip
def test_nobody_but_a_node_itself_ships_and_pulls_for_it(
    key: str, me: str, why: str, tmp_path: Path
) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        run_until(head, worker, 40, at_once=40)
        make_keys(tmp_path / "keys", Holder(KeyRole.NODE, "w9"))
        make_keys(stolen := tmp_path / "stolen", Holder(KeyRole.NODE, "node"))
        shutil.copy(tmp_path / "keys/head.key", stolen)
        for name in ("users/owner", "nodes/node", "nodes/w9"):
            secret = stolen / f"{name}.key_secret"
            shutil.copy(tmp_path / "keys" / f"{key}.key_secret", secret)
        with called(head, Keys.load(stolen), me) as socket:
            messages: list[Message] = [Greet("node", 1, {0: 1})]
            if me != "w9":
                messages += [Pull(-1), Nudge()]
            for message in messages:
                socket.send(codec.encode(message))
                refusal = codec.decode(socket.recv())
                assert isinstance(refusal, Refusal)
                assert why in refusal.why
        run_until(head, worker, 80, at_once=40)  # it notices nothing


def test_who_is_revoked_while_its_pull_waits_gets_no_weights(tmp_path: Path) -> None:
    w9 = Holder(KeyRole.NODE, "w9")
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        make_keys(tmp_path / "keys", w9)
        with called(head, Keys.load(tmp_path / "keys"), "w9/weights") as socket:
            ended = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            head.publish(0)
            socket.send(codec.encode(Pull(-1)))
            assert isinstance(codec.decode(socket.recv()), Weights)
            while socket.poll(500):
                socket.recv()
            socket.send(codec.encode(Pull(0)))
            socket.send(codec.encode(Nudge()))  # answered: so the pull was read
            assert isinstance(codec.decode(socket.recv()), Refusal)
            revoke(tmp_path / "keys", w9)
            head.publish(1)
            await_version(head, worker, 1)
            assert ended.poll(PATIENCE * 1000)
            assert not socket.poll(0)
            socket.disable_monitor()
            ended.close(0)


def test_strangers_do_not_fill_the_memory_of_a_replay_process(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        run_until(head, worker, 40, at_once=40)
        process = psutil.Process(head.host.pids()["replay"])
        before = process.memory_info().rss
        with strangers(head.host.endpoint, 4) as crowd:
            taken = [each.send(200_000_000, 50_000_000) for each in crowd]
            run_until(head, worker, 80, at_once=40)
            assert max(taken) < 50_000_000
            assert process.memory_info().rss - before < 50_000_000


def test_nonsense_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        run_until(head, worker, 40, at_once=40)
        assert worker.host.finish(PATIENCE) == {}
        head.consume()
        before = [bytes(block.segment.memory) for block in head.blocks.values()]
        with called(head, Keys.load(tmp_path / "keys"), "node") as socket:
            socket.send(codec.encode(Greet("node", 1, {0: 1})))
            assert isinstance(codec.decode(socket.recv()), RowsTaken)
            for frames in nonsense(head.blocks[0].written):
                socket.send_multipart(frames)
                assert isinstance(codec.decode(socket.recv()), Refusal), frames
        assert [bytes(block.segment.memory) for block in head.blocks.values()] == before
        assert head.host.pids()
