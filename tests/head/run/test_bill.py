"""The bill of a run: its actors' part from their nodes, its learner's from its own times."""

from __future__ import annotations

from msgspec.structs import asdict
from named import LEARNER

from artos.protocol.steering import ExecutorNews
from artos.protocol.usage import BILL, Usage, flat, nested
from artos.specs.members import Member
from head.run.bill import bill_of, device_seconds, of_actors
from head.run.remote.node_usage import NodeUsage
from head.run.times import Times

ACTORS = Usage(cpu_seconds_held=10.0, bytes_moved=7, waits={"slot": 2.0}, nodes=("w1",))


def times() -> Times:
    spent = Times()
    spent.spend(LEARNER, {"learn": 3.0, "publish": 0.5, "wait": 4.0})
    spent.spend(LEARNER, {"learn": 1.0, "wait_for_device": 2.5})
    spent.spend(Member("actors"), {"environment": 9.0, "wait_for_room": 0.25, "wait": 1.0})
    return spent


def test_a_learner_has_its_own_device_also_while_it_waits() -> None:
    bill = bill_of(ACTORS, times())
    assert (bill.device_seconds_held, bill.device_seconds_used) == (11.0, 4.5)
    assert bill.waits == {"slot": 2.0, "room": 0.25, "device": 2.5}


def test_a_leased_device_is_held_while_it_computes() -> None:
    bill = bill_of(ACTORS, times(), leases=["learner"])
    assert (bill.device_seconds_held, bill.device_seconds_used) == (4.5, 4.5)


def test_what_the_driver_saw_idle_was_held_and_not_used() -> None:
    bill = bill_of(ACTORS, times(), leases=["learner"], idle={"learner": 1.25})
    assert (bill.device_seconds_held, bill.device_seconds_used) == (4.5, 3.25)
    idle = bill_of(ACTORS, times(), leases=["learner"], idle={"learner": 9.0})
    assert idle.device_seconds_used == 0.0


def test_each_learner_pays_for_its_own_device() -> None:
    """One leases it, the other has one of its own; what is idle of one is not of the other."""
    spent = times()
    spent.spend(Member("model"), {"learn": 2.0, "wait": 6.0})
    learners, idle = ("learner", "model"), {"model": 5.0}
    bill = bill_of(ACTORS, spent, ["learner"], idle, learners)
    assert (bill.device_seconds_held, bill.device_seconds_used) == (4.5 + 8.0, 4.5 + 0.0)
    assert bill.waits["device"] == 2.5
    assert device_seconds(spent, "learner", leases=True) == (4.5, 4.5, 2.5)
    assert device_seconds(spent, "model", leases=False, idle=0.5) == (8.0, 1.5, 0.0)


def test_the_actors_part_stays_as_their_nodes_report_it() -> None:
    bill = bill_of(ACTORS, Times())
    assert bill.cpu_seconds_held == 10.0
    assert bill.bytes_moved == 7
    assert bill.nodes == ("w1",)


def test_the_actors_part_is_what_the_times_of_members_do_not_add() -> None:
    assert of_actors(bill_of(ACTORS, times())) == ACTORS


def test_a_bill_on_one_level_and_back() -> None:
    bill = bill_of(ACTORS, times())
    assert nested(flat(bill)) == bill.bill
    assert tuple(bill.bill) == BILL


def test_the_sum_over_workloads_is_what_their_nodes_report() -> None:
    """Also of a node whose executor has ended, and of one that two runs are on."""
    reported = {
        ("ppo", "w1"): Usage(cpu_seconds_held=3.0, cpu_seconds_used=1.0, waits={"slot": 0.5}),
        ("ppo", "w2"): Usage(cpu_seconds_held=4.0, parked_mb_seconds=7.0, waits={"process": 2.0}),
        ("sac", "w1"): Usage(cpu_seconds_held=5.0, cpu_seconds_used=2.5, waits={"slot": 1.0}),
    }
    runs = {"ppo": NodeUsage(), "sac": NodeUsage()}
    for (run, node), usage in reported.items():
        runs[run].begin(node)
        runs[run].news(node, ExecutorNews(asdict(usage)))
    runs["ppo"].end("w1", "it is drained")
    bills = [bill_of(nodes.usage(), Times()) for nodes in runs.values()]
    found, expected = Usage.total(bills), Usage.total(reported.values())
    assert found.bill | {"waits": {}} == expected.bill | {"waits": {}}
    assert found.waits == expected.waits | {"room": 0.0, "device": 0.0}
    assert found.cpu_seconds_held == 12.0
