"""A whole run on a cluster of hosts: its updates are timed from its journal."""

import pytest

from evaluation.baselines.processes import measure_ours
from evaluation.lab.namespaces import why_not
from evaluation.pipelining.artos_cluster import iterations


def journal(*times):
    for number, time in enumerate(times):
        yield {"t": time, "trigger": "actors.sample", "firing": number}
        yield {"t": time + 0.1, "done": number, "by": "actor 0"}


def test_iterations_go_from_grant_to_grant_after_a_warm_up():
    assert iterations([*journal(1.0, 9.0, 11.0, 14.0)]) == [2.0, 3.0]


def test_a_run_that_was_too_short_says_so():
    with pytest.raises(ValueError, match="2 grants"):
        iterations([*journal(1.0, 9.0)])


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.skipif(bool(why := why_not()), reason=f"no namespaces: {why}")
def test_a_cluster_trains_by_the_commands_of_a_user():
    size = ("--actors", "2", "--workers", "2", "--steps", "16", "--updates", "4")
    arguments = ("--env", "CartPole-v1", "--set", "minibatches=2", *size)
    rates, versions = measure_ours("pipelining.artos_cluster", *arguments, seconds=240)
    assert rates["iteration_s"] > 0
    assert rates["wire_mb"] > 0
    assert "torch" in versions
