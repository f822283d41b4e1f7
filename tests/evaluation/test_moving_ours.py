"""Our side of moving: what fires is learned from once, and features can be switched off."""

import argparse
import json
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from named import acting

from artos.errors import DeadlineExceeded
from artos.runs.run_memory import RunMemory
from evaluation.baselines.processes import measure_ours
from evaluation.control_plane.head_load import divided
from evaluation.lab.namespaces import why_not
from evaluation.pipelining import artos_learner, not_encrypted
from evaluation.pipelining.artos_learner import Learner
from evaluation.pipelining.artos_side import FEATURES, pipeline, workload
from evaluation.pipelining.recording import record
from evaluation.pipelining.rounds import OBSERVATIONS
from evaluation.pipelining.stand_in_learner import Learning
from triggers.algorithms.pipelines import stages

ACTORS, STEPS, ROUNDS = 4, 8, 3
PIPELINES = ((), ("dual-stage",), ("mini-batch",), ("dual-stage", "mini-batch"))


class Counting(Learning):
    """A learner that counts what it is given."""

    def __init__(self):
        super().__init__()
        self.preprocessed, self.actors = 0, []

    def preprocess(self, small):
        self.preprocessed += small["rewards"].size
        return small["rewards"]

    def learn(self, observations):
        self.actors += (observations[:, -1, 0, 0] - 1).tolist()

    @property
    def learned(self):
        return len(self.actors)


@contextmanager
def a_learner(tmp_path, *off, actors=ACTORS):
    options = argparse.Namespace(actors=actors, steps=STEPS, off=off)
    learning, told = Counting(), []
    with RunMemory(workload(options)[0], "test", tmp_path) as node:
        for block in node.blocks.values():
            block.begin_term(1, 0)
        learner = Learner(node, workload(options)[1], learning, lambda: told.append(1))
        yield node, learner, learning, told


def arrive(node, number, names=None, actors=range(ACTORS)):
    """Round ``number`` comes from these actors, as their replay process would take it."""
    for actor in actors:
        block = node.blocks[actor]
        keys = names or tuple(block.headers)
        block.reserve((number + 1) * STEPS, keys)
        steps = np.arange(number * STEPS, (number + 1) * STEPS)
        places = steps % block.spec.capacity
        block.arrays[OBSERVATIONS][places] = actor + 1
        block.arrays["ages"][places, 0] = steps
        block.arrays["policy_version"][places] = number
        block.commit((number + 1) * STEPS, keys)
        node.board.notify(*acting(actor))


@pytest.mark.parametrize("off", PIPELINES, ids=str)
def test_every_row_is_learned_from_once_and_given_back(tmp_path, off):
    with a_learner(tmp_path, *off) as (node, learner, learning, told):
        for number in range(ROUNDS):
            arrive(node, number)
            seen = []
            learner.update(lambda seen=seen: seen.append(1))
            assert seen == [1]
            rows = STEPS * (number + 1)
            assert Counter(learning.actors) == dict.fromkeys(range(ACTORS), rows)
            assert learning.preprocessed == ACTORS * rows
        last = (ROUNDS - 1) * STEPS
        assert all(b.headers[OBSERVATIONS].released >= last for b in node.blocks.values())
        assert told


def test_an_update_learns_from_those_whom_no_mini_batch_took(tmp_path):
    odd = 2 * 4 + 1
    with a_learner(tmp_path, actors=odd) as (node, learner, learning, _):
        arrive(node, 0, actors=range(odd))
        learner.update(lambda: None)
        assert Counter(learning.actors) == dict.fromkeys(range(odd), STEPS)


def test_only_mini_batches_begin_before_all_rows_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(artos_learner, "SECONDS", 0.2)
    for off, learned in (((), 2 * STEPS), (("mini-batch",), 0)):
        with a_learner(tmp_path, *off) as (node, learner, learning, _):
            arrive(node, 0, actors=(0, 2))
            with pytest.raises(DeadlineExceeded):
                learner.update(lambda: None)
            assert learning.learned == learned


def test_only_two_stages_preprocess_before_observations_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(artos_learner, "SECONDS", 0.2)
    for off, preprocessed in (((), ACTORS * STEPS), (("dual-stage",), 0)):
        with a_learner(tmp_path, *off) as (node, learner, learning, _):
            first, _ = stages([key.name for key in node.plan.data_keys])
            arrive(node, 0, (*first, "policy_version"))
            with pytest.raises(DeadlineExceeded):
                learner.update(lambda: None)
            assert (learning.preprocessed, learning.learned) == (preprocessed, 0)


def test_what_is_off_is_not_in_the_workload():
    def made(*off):
        options = argparse.Namespace(actors=ACTORS, steps=STEPS, off=off)
        return workload(options)

    (full, table), (bare, bare_table) = made(), made(*FEATURES)
    assert {"learner.preprocess", "learner.first_pass"} <= table.keys()
    assert not {"learner.preprocess", "learner.first_pass"} & bare_table.keys()
    assert (len(table["transfer"].stages()), len(bare_table["transfer"].stages())) == (2, 1)
    stacks = [next(k.stack for k in p.data_keys if k.name == OBSERVATIONS) for p in (full, bare)]
    assert stacks == [4, 1]


@pytest.mark.parametrize(
    ("off", "left"),
    [*zip(PIPELINES, ("dual+minibatch", "minibatch", "dual", "none"), strict=True)],
)
def test_the_pipeline_is_what_is_not_off(off, left):
    assert pipeline(off) == left


def test_processes_without_encryption_get_no_keys(monkeypatch):
    begun = []
    monkeypatch.setattr(not_encrypted, "_allow_tcp_without_keys", lambda: None)
    monkeypatch.setattr(
        not_encrypted.runpy, "run_module", lambda module, **options: begun.append(module)
    )
    for orders in ({"node": "a", "keys": "k"}, {"number": 0, "keys": "k"}):
        monkeypatch.setattr(not_encrypted.sys, "argv", ["x", json.dumps(orders), "3"])
        not_encrypted.main()
        assert json.loads(not_encrypted.sys.argv[1])["keys"] == ""
    assert begun == ["workers.agent", "head.replay"]


def test_simulated_workers_are_divided():
    assert divided(5, 2) == [["node0", "node2", "node4"], ["node1", "node3"]]
    assert divided(2, 4) == [["node0"], ["node1"]]


needs_network = pytest.mark.skipif(bool(why := why_not()), reason=f"no namespaces: {why}")


@pytest.mark.long
@needs_network
@pytest.mark.processes
@pytest.mark.parametrize("off", [(), FEATURES], ids=["all on", "all off"])
def test_rounds_cross_a_link_by_agent_and_replay_process(tmp_path, off):
    record(tmp_path, steps=STEPS)
    size = ("--actors", str(ACTORS), "--steps", str(STEPS), "--recording", str(tmp_path))
    flags = [word for feature in off for word in ("--off", feature)]
    arguments = ("--script", "pipelining.artos_side", "--iterations", "2", *size, *flags)
    rates, _ = measure_ours("lab.link", *arguments, seconds=240)
    megabytes = ACTORS * STEPS * 4 * 84 * 84 / 1e6
    assert (rates["wire_mb"] > megabytes) is bool(off)
    assert 0 < rates["transfer_s"] < rates["iteration_s"]


@pytest.mark.long
@needs_network
@pytest.mark.processes
def test_weights_go_to_each_node_once(tmp_path):
    size = ("--actors", "3", "--workers", "2", "--iterations", "2")
    rates, _ = measure_ours("lab.link", "--script", "pipelining.artos_weights", *size, seconds=240)
    assert rates["first_use_s"] > 0
    assert rates["worker_mb"] == pytest.approx(6.75, rel=0.1)
