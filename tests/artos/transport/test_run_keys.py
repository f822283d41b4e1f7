"""A run with keys of its own: its executors are let in, nobody else; users on ipc are known."""

from __future__ import annotations

import os
from pathlib import Path

import zmq

from artos.transport import sockets
from artos.transport.keys import (
    HeadKeys,
    Keys,
    make_keys,
    new_run_keys,
    write_call_keys,
    write_run_keys,
)


def test_an_executor_of_the_run_is_let_in_and_a_node_of_the_cluster_is_not(tmp_path: Path) -> None:
    keys = new_run_keys()
    run = Keys.load(write_run_keys(tmp_path / "run", keys))
    executor = Keys.load(write_run_keys(tmp_path / "executor", keys.of_executor))
    make_keys(tmp_path / "cluster")
    cluster = Keys.load(tmp_path / "cluster")
    assert executor.head == run.head
    assert not (tmp_path / "executor" / "head.key_secret").exists()
    register = run.register()
    assert register.misnamed(zmq.curve_public(executor.secret_of("w1")).decode(), "w1") == ""
    stranger = zmq.curve_public(cluster.secret_of("w1")).decode()
    assert "no longer valid" in register.misnamed(stranger, "w1")
    assert keys.head_secret not in repr(keys)


def test_a_head_hears_the_runs_that_nodes_carry_as_long_as_they_are_named(tmp_path: Path) -> None:
    keys = new_run_keys()
    make_keys(tmp_path / "cluster")
    head = HeadKeys.load(tmp_path / "cluster")
    folder = write_call_keys(tmp_path / "call", head.head, "r.1", keys)
    run = Keys.load(folder)
    assert run.head == head.head
    assert {path.name for path in folder.rglob("*.key*")} == {"head.key", "r.1.key_secret"}
    public = zmq.curve_public(run.secret_of("run:r.1/7")).decode()
    assert "no longer valid" in head.register().misnamed(public, "run:r.1/7")
    head.hear({keys.head: "r.1"})
    assert public == keys.head
    for peer, may in (("run:r.1/7", True), ("run:r.2/7", False), ("w1", False)):
        assert (head.register().misnamed(public, peer) == "") == may
    w1 = zmq.curve_public(head.secret_of("w1")).decode()
    assert head.register().misnamed(w1, "w1") == "", "nodes are heard as before"
    head.hear({})
    assert "no longer valid" in head.register().misnamed(public, "run:r.1/7")


def test_the_kernel_says_whose_process_is_at_the_other_end(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/socket"
    with zmq.Context() as context:
        server = sockets.serve(context, endpoint, None)
        sockets.listen(server, f"ipc://{tmp_path}/door")
        client = sockets.connect(context, f"ipc://{tmp_path}/door", None, "r1")
        assert client.poll(10_000, zmq.POLLOUT)
        client.send(b"hello")
        assert server.poll(10_000)
        frame, _ = server.recv_multipart(copy=False)
        assert sockets.user_of(frame) == str(os.geteuid())
        for each in (server, client):
            each.close()
