"""Quotas on a simulated cluster: who waits, who has fewer slots, who is ended early."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_simulated_cluster import workload

from artos.errors import Refused
from deploy.simulation.cluster import Cluster
from deploy.simulation.toml_tables import quotas_in
from head.daemon.quotas import Quota, Quotas


def test_a_run_waits_for_the_quota_of_its_user_and_nobody_else_does() -> None:
    quotas = Quotas(users={"ann": Quota(slots=1)})
    ann = workload(actors=1, user="ann", runs=2)
    ben = workload(actors=1, user="ben", arrives=1.0)
    first, second, other = Cluster(1, 8, quotas=quotas).run([ann, ben]).usage
    assert (first.ended, second.began, second.ended) == pytest.approx((4.5, 4.5, 9.0))
    assert second.waits == pytest.approx({"quota": 4.5, "start": 0.0, "slot": 0.0, "device": 0.0})
    assert (other.began, other.waits["quota"]) == (1.0, 0.0)


def test_actors_take_turns_on_the_slots_that_a_quota_leaves() -> None:
    quotas = Quotas(workloads={"w": Quota(slots=2)})
    found = Cluster(1, 8, quotas=quotas).run([workload()])
    assert found.makespan == pytest.approx(Cluster(1, 2).run([workload()]).makespan)
    assert found.usage[0].waits["quota"] == pytest.approx(3 * 2 * 1.0)
    assert found.usage[0].waits["slot"] == 0.0


def test_learners_wait_for_a_quota_of_devices() -> None:
    quotas = Quotas(users={"*": Quota(devices=1)})
    first, second = Cluster(1, 8, 2, quotas=quotas).run([workload(runs=2)]).usage
    assert second.began == first.ended


def test_who_has_used_up_its_seconds_is_ended_and_told() -> None:
    quotas = Quotas(users={"ann": Quota(cpu_seconds=5.0)})
    found = Cluster(2, 4, quotas=quotas).run([workload(user="ann", updates=9), workload()])
    early, whole = found.usage
    assert (early.run, whole.run) == ("w-1", "w-2")
    assert 5.0 <= early.cpu_seconds_held <= 5.0 + 4
    assert early.updates < 9
    assert list(found.ended_early) == ["w-1"]
    assert "user ann has held" in found.ended_early["w-1"]
    assert found.unfinished == {}
    late = workload(user="ann", arrives=50.0)
    more = Cluster(2, 4, quotas=quotas).run([workload(user="ann", updates=9), late])
    assert "a quota: user ann has held" in more.unfinished["w-2"]


def test_quotas_larger_than_the_cluster_are_refused() -> None:
    with pytest.raises(Refused, match="slots = 9, but the cluster has 8"):
        Cluster(2, 4, quotas=Quotas(users={"ann": Quota(slots=9)}))


def test_quotas_are_read_from_head_toml(tmp_path: Path) -> None:
    path = tmp_path / "head.toml"
    path.write_text('keys = "k"\n[quotas.users]\nann = { slots = 2 }\n')
    assert quotas_in(path) == Quotas(users={"ann": Quota(slots=2)})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[quotas.users]\nann = { slots = 0 }\n", "slots must be a whole number"),
        ("[quotas.user]\n", "unknown quotas.user"),
        ("[queue]\n", "it has no quota"),
        ("quotas", "it is no TOML"),
    ],
)
def test_what_is_wrong_with_quotas_is_said(tmp_path: Path, text: str, fault: str) -> None:
    (path := tmp_path / "quotas.toml").write_text(text)
    with pytest.raises(Refused, match=fault):
        quotas_in(path)
    with pytest.raises(Refused, match="No such file"):
        quotas_in(tmp_path / "none.toml")
