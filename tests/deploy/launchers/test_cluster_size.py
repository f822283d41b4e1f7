"""How many workers a cluster has: for all actors, within bounds, gently; by what is seen."""

from __future__ import annotations

import msgspec
import pytest

from artos.protocol.views import ClusterView, NodeView, RunView
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import State, Unit
from deploy.launchers.scaling import PATIENCE, Scaling, Step

NAME = "lab"


def cluster(least: int = 1, most: int = 4, hosts: tuple[str, ...] = ()) -> Cluster:
    return Cluster(
        name=NAME, engine="slurm", folder="/shared/lab", least=least, most=most, hosts=hosts
    )


def unit(index: int, state: State = "runs") -> Unit:
    return Unit(index, f"job_{index}", state)


def node(index: int, actors: int = 0, leaves: str = "", slots: int = 2) -> NodeView:
    return NodeView(name=f"{NAME}-{index}", alive=True, slots=slots, actors=actors, leaves=leaves)


def run(wants: int) -> RunView:
    return RunView(name=f"run-{wants}", state="running", wants=wants)


def roomy(index: int) -> NodeView:
    """A worker that holds three actors of ``waits``."""
    return msgspec.structs.replace(node(index), shm_bytes=100)


def waits(
    actors: int, wants: int = 2, where: tuple[str, ...] = (), actor_bytes: int = 30
) -> RunView:
    """A run so many of whose actors wait for shared memory."""
    return RunView(
        name="r", state="running", wants=wants, where=where, lacks_memory=actors,
        executor_bytes=10, actor_bytes=actor_bytes,
    )  # fmt: skip


def view(*there: NodeView | RunView) -> ClusterView:
    return ClusterView(
        nodes=tuple(each for each in there if isinstance(each, NodeView)),
        runs=tuple(each for each in there if isinstance(each, RunView)),
    )


@pytest.mark.parametrize(
    ("wants", "least", "most", "workers"),
    [(0, 1, 4, 1), (0, 0, 4, 0), (2, 0, 4, 1), (3, 0, 4, 2), (7, 1, 4, 4), (99, 1, 4, 4)],
)
def test_there_are_as_many_as_actors_can_use_within_bounds(
    wants: int, least: int, most: int, workers: int
) -> None:
    one = view(node(0), run(wants)) if workers else view(run(wants))
    units = [unit(HEAD), unit(0)] if workers else [unit(HEAD)]
    step = Scaling(cluster(least, most)).step(one, units, {}, 0.0)
    assert len(step.start) + len(units) - 1 == workers


def test_runs_that_no_worker_here_suits_are_not_counted() -> None:
    unfit = ClusterView(runs=(RunView(name="r", state="queued", wants=8, where=("gpu",)),))
    assert Scaling(cluster(1, 4)).step(unfit, [unit(HEAD)], {}, 0.0).start == (0,)
    labelled = msgspec.structs.replace(cluster(1, 4), labels=("gpu",))
    assert Scaling(labelled).step(unfit, [unit(HEAD)], {}, 0.0).start == (0, 1, 2, 3)


def test_actors_that_wait_for_memory_alone_have_workers_started_that_hold_them() -> None:
    scaling = Scaling(cluster(1, 9))
    two = [unit(0), unit(1)]
    assert scaling.step(view(roomy(0), roomy(1), waits(5)), two, {}, 0.0).start == (2, 3)
    four = [*two, unit(2, "waits"), unit(3, "waits")]
    assert scaling.step(view(roomy(0), roomy(1), waits(5)), four, {}, 3.0) == Step()
    # Several runs that wait share a worker.
    shared = view(roomy(0), waits(1), waits(2))
    assert Scaling(cluster(1, 9)).step(shared, [unit(0)], {}, 0.0).start == (1,)
    assert Scaling(cluster(1, 1)).step(shared, [unit(0)], {}, 0.0).start == ()


def test_an_actor_that_an_empty_worker_would_not_hold_has_none_started() -> None:
    for unfit in (waits(1, actor_bytes=91), waits(1, where=("gpu",)), waits(0)):
        assert Scaling(cluster(1, 4)).step(view(roomy(0), unfit), [unit(0)], {}, 0.0) == Step()
    assert Scaling(cluster(1, 4)).step(
        view(roomy(0), waits(1, actor_bytes=90)), [unit(0)], {}, 0.0
    ).start == (1,)


def test_workers_that_memory_asked_for_stay_as_long_as_runs_want_as_much() -> None:
    scaling, units = Scaling(cluster(1, 9)), [unit(0), unit(1)]
    assert scaling.step(view(roomy(0), waits(1)), units[:1], {}, 0.0).start == (1,)
    placed = view(roomy(0), roomy(1), waits(0))
    for now in (3.0, PATIENCE + 3.0, 2 * PATIENCE + 3.0):
        assert scaling.step(placed, units, {}, now) == Step()
    over = view(roomy(0), roomy(1))
    assert scaling.step(over, units, {}, 200.0) == Step()
    assert scaling.step(over, units, {}, 200.0 + PATIENCE).stop == (unit(1),)


def test_before_any_worker_has_joined_each_is_expected_to_have_a_slot() -> None:
    assert Scaling(cluster(0, 4)).step(view(run(3)), [], {}, 0.0).start == (0, 1, 2)


def test_units_that_wait_count_and_those_that_end_do_not() -> None:
    units = [unit(0, "waits"), unit(1, "ends")]
    step = Scaling(cluster(2)).step(view(), units, {}, 0.0)
    assert step == Step(start=(2,))  # an index is free again once nothing of it is left


def test_one_that_is_gone_is_started_again_under_its_index() -> None:
    scaling = Scaling(cluster(3))
    assert scaling.step(view(node(0), node(2)), [unit(0), unit(2)], {}, 0.0).start == (1,)


def test_one_whose_node_still_leaves_is_replaced_under_another_name() -> None:
    """The engine took the unit away; a second node of its name would be refused."""
    there = view(node(0), node(1, leaves="node lab-1 leaves: told to stop"))
    assert Scaling(cluster(2)).step(there, [unit(0)], {}, 0.0).start == (2,)
    assert Scaling(cluster(2), in_order=True).step(there, [unit(0)], {}, 0.0).start == (1,)


def test_the_names_of_workers_that_a_new_head_only_remembers_are_free() -> None:
    """The cluster was ended and is started again: nobody waits until it forgets them."""
    there = view(*(msgspec.structs.replace(node(index), awaited=True) for index in (0, 1)))
    assert Scaling(cluster(2)).step(there, [], {}, 0.0).start == (0, 1)


def test_one_that_leaves_is_replaced_at_once() -> None:
    there = view(node(0), node(1, leaves="node lab-1 leaves: told to stop"))
    assert Scaling(cluster(2)).step(there, [unit(0), unit(1)], {}, 0.0).start == (2,)


def test_one_that_the_engine_takes_back_is_drained_once_and_replaced() -> None:
    scaling, units = Scaling(cluster(2)), [unit(0), unit(1)]
    first = scaling.step(view(node(0), node(1)), units, {1: 60.0}, 0.0)
    assert (first.stop, first.start) == ((unit(1),), (2,))
    again = scaling.step(view(node(0), node(1)), [*units, unit(2)], {1: 57.0}, 3.0)
    assert again == Step()


def test_what_no_run_uses_is_kept_for_a_while_and_then_the_emptiest_is_drained() -> None:
    scaling = Scaling(cluster(1, 4))
    there, units = view(node(0, actors=1), node(1), node(2, actors=2), run(3)), map(unit, range(3))
    all_units = [*units]
    assert scaling.step(there, all_units, {}, 0.0) == Step()
    assert scaling.step(there, all_units, {}, PATIENCE - 1) == Step()
    assert scaling.step(there, all_units, {}, PATIENCE).stop == (unit(1),)
    # What a new run uses is not drained, however long it was idle before.
    busy = view(node(0, actors=1), node(1), node(2, actors=2), run(6))
    other = Scaling(cluster(1, 4))
    assert other.step(there, all_units, {}, 0.0) == Step()
    assert other.step(busy, all_units, {}, PATIENCE - 1) == Step()
    assert other.step(there, all_units, {}, PATIENCE) == Step()


def test_units_that_have_not_begun_are_the_first_to_go_and_at_once() -> None:
    units = [unit(0), unit(1, "waits"), unit(2, "waits")]
    scaling = Scaling(cluster(1, 4))
    assert scaling.step(view(node(0), run(4)), units, {}, 0.0).stop == (unit(2, "waits"),)
    assert scaling.step(view(node(0), run(4)), units, {}, 3.0) == Step(), "it is told once"


def test_where_only_the_last_one_can_go_it_does() -> None:
    scaling = Scaling(cluster(1, 4), in_order=True)
    there, units = view(node(0), node(1), node(2, actors=2), run(3)), [*map(unit, range(3))]
    scaling.step(there, units, {}, 0.0)
    assert scaling.step(there, units, {}, PATIENCE).stop == (unit(2),)
    waiting = [unit(0), unit(1, "waits"), unit(2)]
    assert Scaling(cluster(1, 4), in_order=True).step(there, waiting, {}, 0.0) == Step()


def test_one_that_cannot_live_is_left_alone_after_three_attempts_and_others_are_not() -> None:
    scaling, now = Scaling(cluster(1, 2)), 0.0
    for _ in range(3):
        assert scaling.step(view(), [], {}, now).start == (0,)
        scaling.step(view(), [unit(0)], {}, now + 1)
        now += 10
    step = scaling.step(view(), [], {}, now)
    assert (step.start, step.unable) == ((1,), (0,))
    assert scaling.step(view(), [unit(1)], {}, now + 1).unable == (), "it is said once"


def test_one_that_lived_may_end_and_begin_as_often_as_it_likes() -> None:
    scaling, now = Scaling(cluster(1, 2)), 0.0
    for _ in range(10):
        assert scaling.step(view(), [], {}, now).start == (0,)
        for later in (1, 20, 40):
            assert scaling.step(view(), [unit(0)], {}, now + later).unable == ()
        now += 100


@pytest.mark.parametrize(("why", "lives"), [("its worker was told to stop", True), ("", False)])
def test_one_that_its_engine_takes_away_can_live_however_soon(why: str, lives: bool) -> None:
    scaling, now = Scaling(cluster(1, 2)), 0.0
    gone = msgspec.structs.replace(node(0, leaves=why), alive=False)
    for _ in range(3):
        assert scaling.step(view(gone), [], {}, now).start == (0,)
        scaling.step(view(node(0)), [unit(0)], {}, now + 3)
        now += 10
    step = scaling.step(view(gone), [], {}, now)
    assert (step.start, step.unable) == (((0,), ()) if lives else ((1,), (0,)))


def test_what_the_one_before_it_was_told_helps_no_worker_that_never_joins() -> None:
    scaling, now = Scaling(cluster(1, 2)), 0.0
    gone = msgspec.structs.replace(node(0, leaves="its worker was told to stop"), alive=False)
    for _ in range(3):
        assert scaling.step(view(gone), [], {}, now).start == (0,)
        scaling.step(view(gone), [unit(0)], {}, now + 3)
        now += 10
    assert scaling.step(view(gone), [], {}, now).unable == (0,)


def test_one_that_waits_for_long_and_then_dies_counts_as_one_that_cannot_live() -> None:
    scaling, now = Scaling(cluster(1, 1)), 0.0
    for _ in range(3):
        assert scaling.step(view(), [], {}, now).start == (0,)
        scaling.step(view(), [unit(0, "waits")], {}, now + 3600)
        scaling.step(view(), [unit(0)], {}, now + 3603)
        now += 4000
    assert scaling.step(view(), [], {}, now).start == (1,)


def test_with_hosts_there_are_no_more_workers_than_hosts() -> None:
    scaling = Scaling(cluster(2, 2, hosts=("a", "b")))
    units = [unit(0), unit(1, "lost")]  # its host cannot be reached
    assert scaling.step(view(node(0)), units, {}, 0.0) == Step()


def test_nodes_of_other_names_are_none_of_its_workers() -> None:
    there = view(NodeView(name="w7", alive=True, slots=8), node(0), run(2))
    assert Scaling(cluster(1, 4)).step(there, [unit(0)], {}, 0.0) == Step()


@pytest.mark.parametrize("in_order", [False, True])
def test_a_worker_that_has_joined_leaves_nothing_to_do(in_order: bool) -> None:
    """Where its engine starts it again by itself, at once; else once it is seen to live."""
    scaling = Scaling(cluster(1, 2), in_order)
    assert scaling.step(view(node(0), run(4)), [unit(0)], {}, 0.0).start == (1,)
    both, units = view(node(0), node(1), run(4)), [unit(HEAD), unit(0), unit(1)]
    step = scaling.step(both, units, {}, 3.0)
    assert scaling.settled(step, both, units) == in_order
    step = scaling.step(both, units, {}, 60.0)
    assert scaling.settled(step, both, units)
    assert not scaling.settled(step, view(node(0), run(4)), units), "one has not joined"
    waits = [*units[:2], unit(1, "waits")]
    assert not scaling.settled(scaling.step(both, waits, {}, 63.0), both, waits)
    fewer = view(node(0), node(1), run(2))
    assert not scaling.settled(scaling.step(fewer, units, {}, 66.0), fewer, units)
