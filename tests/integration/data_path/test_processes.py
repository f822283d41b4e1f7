"""Real processes, real sockets with keys: every committed row arrives once, whoever is killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from named import LEARNER, acting
from two_nodes import PATIENCE, Head, Worker, kill, plan_of, run_until, two_nodes, value

from artos.buffer.layout import Consumer
from artos.clock import Deadline
from artos.specs.members import Member
from artos.transport.keys import make_keys, revoke
from artos.transport.roles import ANY

pytestmark = pytest.mark.processes

LEARNER_KEYS = ("frames", "rewards", "seen", "policy_version")


def dual_stage(actors: int = 3, steps: int = 40):
    """Rooms for two and a half rounds, so that everybody waits for everybody."""
    plan, table = plan_of(actors, steps, steps * 5 // 2)
    consumer = Consumer("learner.update", LEARNER_KEYS)
    return msgspec.structs.replace(plan, consumers=(consumer,)), table


@pytest.mark.parametrize("curve", [True, False])
@pytest.mark.parametrize("compress", [True, False])
def test_every_row_arrives_once(tmp_path: Path, curve: bool, compress: bool) -> None:
    with two_nodes(tmp_path, *dual_stage(), curve=curve, compress=compress) as (head, worker):
        run_until(head, worker, 400, at_once=40)
        assert worker.host.finish(PATIENCE) == {}
        assert worker.host.wire_bytes > 0


@contextmanager
def standing_still(*processes: int) -> Iterator[None]:
    """What is sent to these processes is on its way for as long as this lasts."""
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in processes:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("victim", ["agent", "replay"])
def test_a_killed_process_loses_and_repeats_nothing(tmp_path: Path, victim: str) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        endpoint, rng = head.host.endpoint, random.Random(victim)
        for at in range(80, 480, 80):
            run_until(head, worker, at + rng.randrange(40), at_once=40)
            with standing_still(*head.host.pids().values()):
                while not worker.host.unsent():
                    worker.write(40)
                kill(head, worker, victim)
        run_until(head, worker, 560, at_once=40)
        assert head.host.endpoint == endpoint
        assert worker.host.finish(PATIENCE) == {}


def test_an_actor_placed_anew_goes_on_where_the_head_is(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        for term in range(2, 6):
            run_until(head, worker, 100 * term, at_once=40)
            worker.write(40)  # these rows are lost with their place, or arrive before it ends
            worker.place(head, term)
            assert {block.incarnation for block in head.blocks.values()} == {term}
        run_until(head, worker, 700, at_once=40)


@pytest.mark.long
def test_all_of_it_at_once(tmp_path: Path) -> None:
    rng, term = random.Random(4), 1
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        for at in range(60, 900, 60):
            run_until(head, worker, at, at_once=rng.choice([1, 7, 40]))
            with standing_still(*head.host.pids().values()):
                worker.write(40)
                pids = head.host.pids() | worker.host.pids()
                for victim in rng.sample(sorted(pids), rng.randint(0, len(pids))):
                    os.kill(pids[victim], signal.SIGKILL)
            if rng.random() < 0.4:
                term += 1
                worker.place(head, term)
        run_until(head, worker, 960, at_once=40)
        assert worker.host.finish(PATIENCE) == {}


def test_two_nodes_ship_to_one_head(tmp_path: Path) -> None:
    plan, table = dual_stage()
    make_keys(tmp_path / "keys")
    with Head(plan, tmp_path, tmp_path / "keys") as head:
        head.host.start()
        first = Worker(plan, table, tmp_path, tmp_path / "keys", head, [0, 2], "first")
        second = Worker(plan, table, tmp_path, tmp_path / "keys", head, [1], "second")
        with first, second:
            for worker in (first, second):
                worker.host.start()
                worker.place(head)
            for rows in range(40, 240, 40):
                for worker in (first, second):
                    run_until(head, worker, rows, at_once=20)


def test_a_buffer_that_overwrites_never_runs_full(tmp_path: Path) -> None:
    plan, table = plan_of(2, 40, 100, on_full="overwrite")
    with two_nodes(tmp_path, plan, table) as (head, worker):
        deadline = Deadline(PATIENCE)
        while min(block.written for block in head.blocks.values()) < 1000:
            worker.write(40)
            head.board.doorbell.wait(0.05)
            assert not deadline.passed
        assert worker.host.finish(PATIENCE) == {}
        for actor, block in head.blocks.items():
            for name, array in block.arrays.items():
                out = np.empty((50, *array.shape[1:]), array.dtype)
                block.read(name, block.written - 50, block.written, out)
                for at, row in enumerate(out):
                    expected = value(actor, name, block.written - 50 + at, row.shape)
                    assert np.array_equal(row, expected)


def test_an_agent_told_to_finish_ships_what_no_trigger_asked_for(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        worker.write(23)  # fewer than the trigger waits for
        assert worker.host.finish(PATIENCE) == {}
        assert worker.host.pids() == {}
        head.consume()
        assert set(head.checked.values()) == {23}


def test_finishing_survives_the_death_of_the_agent(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        worker.write(40)
        kill(head, worker, "agent")
        assert worker.host.finish(PATIENCE) == {}
        head.consume()
        assert set(head.checked.values()) == {40}


def test_rows_that_cannot_be_shipped_are_named(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        run_until(head, worker, 40, at_once=40)
        head.host.stop()
        worker.write(7)
        left = worker.host.finish(0.5)
        assert set(left) == set(worker.actors)
        assert min(left.values()) >= 7


def test_a_node_without_a_key_gets_nothing(tmp_path: Path) -> None:
    plan, table = dual_stage()
    with two_nodes(tmp_path, plan, table) as (head, worker):
        assert worker.host.finish(PATIENCE) == {}
        stranger = tmp_path / "stranger"
        (stranger / "nodes").mkdir(parents=True)
        (stranger / "head.key").write_bytes((tmp_path / "keys" / "head.key").read_bytes())
        make_stranger(stranger)
        with Worker(plan, table, tmp_path, stranger, head, [0], "stranger") as intruder:
            intruder.host.start()
            intruder.host.terms({0: 1})
            before = head.blocks[0].written
            intruder.write(40)
            assert intruder.host.finish(1.0) == {0: 40}
            assert head.blocks[0].written == before


def test_a_node_whose_key_was_revoked_ships_nothing_more(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        worker.write(40)
        deadline = Deadline(PATIENCE)
        while worker.host.unsent():
            head.board.doorbell.wait(0.05)
            assert not deadline.passed
        revoke(tmp_path / "keys", ANY)
        worker.write(40)
        assert worker.host.finish(1.0) == dict.fromkeys(worker.actors, 40)
        assert {block.written for block in head.blocks.values()} == {40}


def test_terms_are_in_force_also_if_the_process_just_died(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        for term in range(2, 5):
            if term % 2:
                kill(head, worker, "replay")
            bases = {actor: block.written for actor, block in head.blocks.items()}
            head.host.terms(dict.fromkeys(head.blocks, term), bases, {})
            assert {block.incarnation for block in head.blocks.values()} == {term}
        assert worker.host.pids()


def make_stranger(folder: Path) -> None:
    """A key pair that the head does not know."""
    other = folder.parent / "other"
    make_keys(other)
    for name in ("any.key", "any.key_secret"):
        (folder / "nodes" / name).write_bytes((other / "nodes" / name).read_bytes())
        (folder / "nodes" / name).chmod(0o600)


def weights_of(worker: Worker) -> tuple[int, float]:
    slot = worker.model.newest
    assert set(slot.arrays) == {"params"}
    values = set(slot.arrays["params"].tolist())
    assert len(values) == 1
    return slot.version, values.pop()


def await_version(head: Head, worker: Worker, version: int) -> None:
    deadline = Deadline(PATIENCE)
    while worker.model.version < version:
        worker.board.doorbell.wait(min(0.05, deadline.left))
        head.host.reap()
        worker.host.reap()
        assert not deadline.passed, f"version {version} never came, {worker.model}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_reach_the_node_whole(tmp_path: Path, dtype: str) -> None:
    with two_nodes(tmp_path, *dual_stage(), dtype=dtype) as (head, worker):
        for version in range(5):
            head.publish(version)
            await_version(head, worker, version)
            assert weights_of(worker) == (version, version)
        assert LEARNER in worker.board.changed()


@pytest.mark.parametrize("victim", ["agent", "replay"])
def test_weights_come_after_a_kill(tmp_path: Path, victim: str) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        for version in range(0, 12, 3):
            head.publish(version)
            kill(head, worker, victim)
            head.publish(version + 1)
            head.publish(version + 2)
            await_version(head, worker, version + 2)
            assert weights_of(worker) == (version + 2, version + 2)


def test_a_new_replay_process_has_everybody_looked_at(tmp_path: Path) -> None:
    with two_nodes(tmp_path, *dual_stage()) as (head, worker):
        run_until(head, worker, 40, at_once=40)
        assert worker.host.finish(PATIENCE) == {}
        head.consume()
        assert head.board.changed() == []
        kill(head, worker, "replay")  # maybe it had told nobody yet
        deadline, looked = Deadline(PATIENCE), set[Member]()
        while len(looked) < len(head.blocks) and not deadline.passed:
            head.board.doorbell.wait(0.05)
            head.host.reap()
            looked |= set(head.board.changed())
        assert looked == {*acting(*head.blocks)}
