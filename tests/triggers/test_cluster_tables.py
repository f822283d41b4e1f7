"""What a table means on a cluster: what is shipped, and what the workers' blocks are like."""

from __future__ import annotations

import msgspec
import pytest
from trigger_helpers import KEYS, new_plan

from artos.buffer.layout import Consumer
from artos.buffer.model_block import ObjectSpec
from artos.runs.plan import Beside
from artos.specs.keys import OTHER_VERSIONS, VERSION_KEY, ArraySpec, DataKey
from triggers import DataKeyTrigger, ObjectKeyTrigger, TransferTrigger
from triggers.table import Table
from triggers.wiring import cache_plan, stage_consumers, transfers, with_transfer

PPO: Table = {
    "learner.update": DataKeyTrigger(KEYS, n=4, size=16),
    "actors.sample": ObjectKeyTrigger("model_param"),
}
ALL = ("observations", "rewards", "dones")


def shipping(*keys: object) -> Table:
    return {"transfer": TransferTrigger(keys, size=8), **PPO}  # type: ignore[arg-type]


def test_without_a_transfer_all_keys_go_after_each_round() -> None:
    plan = new_plan(PPO, triggers={target: each.encode() for target, each in PPO.items()})
    shipped, table = with_transfer(plan, PPO)
    whole = TransferTrigger(ALL, 16)
    assert [*table] == ["transfer", "learner.update", "actors.sample"]
    assert table == {"transfer": whole, **PPO}
    assert shipped.triggers == {"transfer": whole.encode(), **plan.triggers}
    assert [*shipped.triggers] == [*table], "the order in which they are asked"
    assert (shipped.steps, shipped.consumers) == (plan.steps, plan.consumers)
    assert transfers(table) == {"transfer": whole}


def test_a_transfer_that_is_there_stays() -> None:
    table = shipping("rewards", "observations")
    plan = new_plan(table)
    assert with_transfer(plan, table) == (plan, table)
    assert transfers(PPO) == {}


@pytest.mark.parametrize(
    ("keys", "stages"),
    [
        (ALL, [(*ALL, VERSION_KEY)]),
        (("rewards",), [("rewards", VERSION_KEY, "observations", "dones")]),
        (
            (("rewards", "dones"), ("observations",)),
            [("rewards", "dones", VERSION_KEY), ("observations",)],
        ),
        (
            ((VERSION_KEY, "dones"), ("rewards", VERSION_KEY)),
            [("dones", VERSION_KEY), ("rewards", "observations")],
        ),
    ],
)
def test_a_worker_has_a_cursor_per_stage_and_every_key_in_one_of_them(keys, stages) -> None:  # type: ignore[no-untyped-def]
    table = shipping(*keys)
    assert stage_consumers(new_plan(table), table) == tuple(
        Consumer(f"transfer.{n}", stage) for n, stage in enumerate(stages)
    )


def test_workers_wait_for_transfers_and_have_no_optimiser() -> None:
    arrays = (ArraySpec("params", (10,)), ArraySpec("learner.moments", (20,)))
    objects = (ObjectSpec.sized("model_param", arrays, 5), ObjectSpec.sized("noise", arrays[:1], 3))
    table = shipping("rewards", "observations", "dones")
    plan = new_plan(table, on_full="overwrite", objects=objects)
    cache = cache_plan(plan, table)
    assert (cache.on_full, cache.capacity, cache.triggers) == ("wait", plan.capacity, plan.triggers)
    assert cache.consumers == stage_consumers(plan, table)
    assert cache.objects == (ObjectSpec.sized("model_param", arrays[:1], 5),)


def test_workers_have_the_weights_of_those_learners_that_actors_read() -> None:
    """Their versions travel as those of the policy do, so the lag of claimed rows is known."""
    arrays = (ArraySpec("params", (10,)), ArraySpec("learner.moments", (20,)))
    whole = (ObjectSpec.sized("model_param", arrays, 5), ObjectSpec.sized("error", arrays[:1], 1))
    beside = tuple(Beside(name, 1, whole) for name in ("rival", "model"))
    table = shipping(("rewards", "dones"), ("observations",))
    plan, version = new_plan(table), OTHER_VERSIONS + "rival"
    plan = msgspec.structs.replace(
        plan, beside=beside, data_keys=(*plan.data_keys, DataKey(version, (), "int64", 1, False))
    )
    cache = cache_plan(plan, table)
    assert [each.learner for each in cache.beside] == ["rival"]
    assert cache.beside[0].objects == (ObjectSpec.sized("model_param", arrays[:1], 5),)
    assert [str(each) for each in cache.members.publishers] == ["learner", "rival"]
    assert cache.consumers[0].keys == ("rewards", "dones", version, VERSION_KEY)
