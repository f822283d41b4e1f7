"""The tables of quotas in head.toml: what they mean, and all that is wrong with them at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from artos.errors import Refused
from head.daemon.options import HeadOptions, see_quotas
from head.daemon.quotas import Quota, Quotas, quotas_of
from head.daemon.roster import Known
from head.daemon.run import State


def faults(table: Any) -> Iterator[str]:
    found: list[str] = []
    quotas_of(table, found)
    yield from found


def test_a_table_is_read() -> None:
    found: list[str] = []
    table = {"users": {"ann": {"slots": 4, "cpu_seconds": 1.5}}, "workloads": {"*": {"devices": 1}}}
    quotas = quotas_of(table, found)
    assert found == []
    assert quotas == Quotas({"ann": Quota(4, cpu_seconds=1.5)}, {"*": Quota(devices=1)})


def test_everything_that_is_wrong_with_a_table_is_told_at_once() -> None:
    users = {
        "ann": {"slots": 0, "device": 1},
        "b b": {"slots": 1},
        "ben": {},
        "cat": {"slots": 1.5},
    }
    workloads = {"ppo": {"cpu_seconds": float("nan"), "slots": True}, "sac": 3}
    told = [*faults({"users": users, "workloads": workloads, "user": {}})]
    for words in (
        "unknown quotas.user: did you mean users",
        "quotas.users.ann: slots must be a whole number of 1 or more, not 0",
        "quotas.users.ann has no 'device': did you mean devices",
        "quotas.users.'b b' is no user",
        "quotas.users.ben: write one or more of slots",
        "quotas.users.cat: slots must be a whole number",
        "quotas.workloads.ppo: cpu_seconds must be a number of seconds above 0, not nan",
        "quotas.workloads.ppo: slots must be a whole number",
        "quotas.workloads.sac: write one or more",
    ):
        assert any(fault.startswith(words) for fault in told), words
    assert len(told) == 9


@pytest.mark.parametrize("table", [3, {"users": 3}])
def test_what_is_no_table_is_refused(table: object) -> None:
    assert len([*faults(table)]) == 1


def test_a_quota_larger_than_the_cluster_is_refused_once() -> None:
    """A head must come back also when a node did not."""
    quotas = Quotas({"ann": Quota(slots=5)}, {"ppo": Quota(slots=4)})
    options = HeadOptions("tcp://h:1", None, quotas=quotas)  # type: ignore[arg-type]
    nodes = (Known("w1", 2), Known("w2", 2))
    with pytest.raises(Refused) as refused:
        see_quotas(options, State(nodes=nodes))
    assert refused.value.faults == ("quotas.users.ann: slots = 5, but the cluster has 4",)
    see_quotas(options, State(nodes=nodes, quotas=quotas))
    see_quotas(options, State())
