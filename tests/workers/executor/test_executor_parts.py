"""The parts of an executor that decide: calls wait for weights, paths are those of this machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from named import acting

from artos.buffer.model_block import ObjectSpec
from artos.buffer.request_block import block_bytes as request_bytes
from artos.clock import ManualClock
from artos.errors import ShmTooSmall
from artos.protocol import steering
from artos.protocol.invocations import Invoke
from artos.protocol.steering import Call
from artos.runs.plan import Beside, Plan
from artos.runs.run_memory import cached_bytes
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey
from artos.specs.members import Member, Members
from artos.specs.reference import Reference
from artos.specs.servers import ServerSpec
from triggers import DataKeyTrigger, ObjectKeyTrigger, TransferTrigger
from triggers.engine import direct_passers
from triggers.table import Table
from triggers.wiring import cache_plan, transfers, with_transfer
from workers.executor.executor import Executor, VersionGate, local_plan


def call(member: Member, firing: int, version: int) -> Call:
    return Call(member, Invoke(firing, "actors.sample", "sample"), version)


class Weights:
    def __init__(self) -> None:
        self.version = -1
        self.passed: list[tuple[int, int]] = []
        self.gate = VersionGate(lambda: self.version, direct_passers(self._pass, (1, 2)))

    def _pass(self, member: Member, call: Invoke) -> None:
        self.passed.append((member, call.firing))


def test_calls_wait_for_their_weights_and_never_overtake() -> None:
    weights = Weights()
    weights.version = 3
    for each in (call(1, 1, 3), call(1, 2, 4), call(1, 3, -1), call(2, 4, -1)):
        weights.gate.send(each)
    assert weights.passed == [(1, 1), (2, 4)]
    assert weights.gate.holds(1)
    weights.version = 7
    weights.gate.release_calls()
    assert weights.passed == [(1, 1), (2, 4), (1, 2), (1, 3)]
    assert not weights.gate.holds(1)


def test_nothing_passes_before_there_are_any_weights() -> None:
    weights = Weights()
    weights.gate.send(call(1, 1, -1))
    assert weights.passed == []
    weights.version = 0
    weights.gate.release_calls()
    assert weights.passed == [(1, 1)]


def test_what_was_meant_for_somebody_dead_is_forgotten() -> None:
    weights = Weights()
    weights.gate.send(call(1, 1, 0))
    weights.gate.forget(1)
    weights.version = 0
    weights.gate.release_calls()
    assert weights.passed == []


KEYS = (DataKey("observations", (4,)), DataKey("actions"), DataKey("rewards"))


def plan(**changes: object) -> Plan:
    arrays = [ArraySpec("params", (5,)), ArraySpec("learner.m", (5,))]
    made = Plan(
        reference=Reference("/head/code/mine.py:make", {"map": "/head/code/a.txt"}, "/head/code"),
        name="test", env="mine:Env", seed=1, actors=2, envs=1, steps=8, capacity=32,
        on_full="overwrite", total_steps=100, data_keys=KEYS,
        objects=(ObjectSpec.sized("model_param", arrays, 3),), layout=(),
        triggers={"learner.update": {"type": "/head/code/mine.py:Mine", "fields": {}}},
        methods={"actors": ("sample",), "learner": ("update",)},
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


@pytest.mark.parametrize("here", ["/worker/cache/abc", ""])
def test_paths_below_the_users_folder_are_those_of_this_machine(here: str) -> None:
    encoded = msgspec.json.encode(plan(env="/head/codes/not-mine.py:Env"))
    local = local_plan(encoded, "/head/code", here)
    folder = here or "/head/code"
    assert local.reference.source == f"{folder}/mine.py:make"
    assert local.reference.folder == folder
    assert local.reference.settings == {"map": f"{folder}/a.txt"}
    assert local.triggers["learner.update"]["type"] == f"{folder}/mine.py:Mine"
    assert local.env == "/head/codes/not-mine.py:Env"
    assert local_plan(encoded, "", here) == plan(env="/head/codes/not-mine.py:Env")


def table(**more: TransferTrigger) -> Table:
    return {
        **more,
        "learner.update": DataKeyTrigger(("rewards",), n=1, size=8),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }


def test_a_table_without_transfer_ships_everything_a_round_at_a_time() -> None:
    shipped, whole = with_transfer(plan(), table())
    assert whole["transfer"] == TransferTrigger(("observations", "actions", "rewards"), 8)
    assert "transfer" in shipped.triggers
    assert list(transfers(whole)) == ["transfer"]
    own = table(transfer=TransferTrigger(("rewards",), 4))
    assert with_transfer(plan(), own) == (plan(), own)


def test_a_cache_has_a_consumer_per_stage_and_nothing_of_the_learners() -> None:
    staged = table(transfer=TransferTrigger((("rewards",), ("actions",)), 8))
    cache = cache_plan(plan(), staged)
    assert [(c.name, c.keys) for c in cache.consumers] == [
        ("transfer.0", ("rewards", VERSION_KEY)),
        ("transfer.1", ("actions", "observations")),
    ]
    assert cache.on_full == "wait"
    (weights,) = cache.objects
    assert [array.name for array in weights.arrays] == ["params"]
    assert weights.readers == 3


def test_what_servers_need_is_where_actors_are() -> None:
    """Blocks for requests, and the weights that they answer by; the head has neither."""
    arrays = [ArraySpec("params", (5,)), ArraySpec("learner.m", (5,))]
    beside = tuple(
        Beside(name, 1, (ObjectSpec.sized("model_param", arrays, 3),))
        for name in ("critic", "other")
    )
    judge = ServerSpec("judge", (DataKey("x"),), (DataKey("y"),), 1, of="critic")
    head = plan(servers=(judge,), beside=beside, servers_apart=True)
    assert head.sent_learners == ("learner", "critic")
    assert head.requests() == {}
    assert head.members.servers == (Member("judge"),)
    assert Member("judge") not in head.members.hosted
    there = cache_plan(*with_transfer(head, table()))
    assert [each.learner for each in there.beside] == ["critic"]
    assert [*there.requests()] == ["judge"]
    without = cached_bytes(msgspec.structs.replace(there, servers=()))[0]
    assert cached_bytes(there)[0] >= without + request_bytes(there.requests()["judge"])


def test_an_actor_whose_block_does_not_fit_any_more_is_none_of_this_executors(
    tmp_path: Path,
) -> None:
    (member,) = acting(0)
    told: list[dict[int, int]] = []
    shut: list[int] = []

    def full(actor: int, term: int, base: int) -> None:
        raise ShmTooSmall(2_000_000, 1_000_000, "/dev/shm")

    executor: Any = Executor.__new__(Executor)
    executor._board = SimpleNamespace(members=Members.of_run(1))
    site = SimpleNamespace(held_path=lambda _: tmp_path / "held")
    executor._node = SimpleNamespace(open=full, shut=shut.append, blocks={}, site=site)
    executor._gate = executor._migration = SimpleNamespace(forget=lambda _: None)
    executor._agent = SimpleNamespace(terms=told.append)
    executor._servers, executor._members_here = set(), {member}
    executor._terms = {0: 1}
    executor.closing = False
    executor._bring_up(steering.Prepare(member, 2, 64))
    assert executor.closing
    assert "free" in executor.why
    assert (executor._members_here, executor._terms) == (set(), {})
    assert (told, shut) == ([{}], [0])


def test_it_is_told_that_it_is_there_before_its_actors_can_be_at_work() -> None:
    """What they share comes meanwhile."""
    told: list[Any] = []
    executor: Any = Executor.__new__(Executor)
    executor._tell = told.append
    executor._clock, executor._up = ManualClock(), False
    executor._order = SimpleNamespace(node="w1", assign=SimpleNamespace(epoch=3, slots=2))
    spawner = SimpleNamespace(warm=False, warm_up=lambda: told.append("template"))
    executor._actors = SimpleNamespace(criu="4.1", spawner=spawner, step=lambda: None)
    memories = SimpleNamespace(let_in=lambda: told.append("others' memory"))
    executor._migration = SimpleNamespace(memories=memories)
    executor._agent = SimpleNamespace(start=lambda: told.append("agent"))

    def serve(over: Any, announce: Any) -> None:
        announce()
        assert told[1:] == ["template", steering.ExecutorUp("w1", 3, 2, "4.1", warm=False)]
        spawner.warm = True
        announce()
        announce()

    executor.serve, executor.closing, executor.why = serve, False, ""
    assert executor.run() == ""
    assert told[3:] == [steering.ExecutorUp("w1", 3, 2, "4.1"), "others' memory"]
