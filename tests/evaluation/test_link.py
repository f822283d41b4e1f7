"""A contestant on hosts of its own: what the meters say is shared out to iterations."""

import subprocess
import sys

import pytest

from evaluation.baselines.processes import BaselineFailed, measure_ours
from evaluation.lab.link import Reading, Script, costs
from evaluation.lab.namespaces import Network, until, why_not
from evaluation.pipelining.iterations import Stopwatch, iterate
from evaluation.pipelining.recording import record
from evaluation.pipelining.stand_in_learner import Learning


def test_costs_are_those_of_an_iteration():
    before = Reading(1_000_000, (0, 500_000), 10.0)
    after = Reading(21_000_000, (4_000_000, 2_500_000), 14.0)
    found = costs(before, after, iterations=2, learning=0.5)
    assert found == {"wire_mb": 10.0, "worker_mb": 2.0, "moving_cpu_s": 1.5}


def test_a_learner_that_is_busier_than_all_processes_costs_nothing_to_feed():
    assert costs(Reading(0, (0,), 1.0), Reading(0, (0,), 1.1), 1, 0.5)["moving_cpu_s"] == 0.0


def test_medians_are_of_laps_after_the_warm_up():
    values = iter([100.0, 100.0, 1.0, 3.0, 2.0])
    found = iterate(lambda: {"wait_s": next(values)}, 3, marked=False)
    assert found == {"wait_s": 2.0}


def test_time_is_sampling_moving_or_work():
    learning = Learning()
    watch = Stopwatch(learning, steps=1)
    watch.arrived()
    learning.seconds += 100.0
    found = watch.ended()
    assert found["transfer_s"] >= 0
    assert found["sample_s"] > 0
    assert found["iteration_s"] >= found["transfer_s"] + found["sample_s"]
    assert found["wait_s"] < found["iteration_s"] - 99


def test_a_rival_sees_the_scripts_only_and_ours_sees_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "evaluation").symlink_to(tmp_path)
    assert Script("x", "another", ()).environment() == {"PYTHONPATH": str(tmp_path)}
    assert Script("x", sys.executable, ()).environment() == {}


_SENDS = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    for _ in range(3):
        line.sendto(bytes(1000), (sys.argv[1], 9))
while time.process_time() < 0.1:  # some ticks of the kernel's clock
    pass
sys.stdin.read()
"""

needs_network = pytest.mark.skipif(bool(why := why_not()), reason=f"no namespaces: {why}")


@pytest.mark.long
@needs_network
@pytest.mark.processes
@pytest.mark.parametrize("script", ["pipelining.sockets_side", "pipelining.zeromq_side"])
def test_rounds_cross_a_link_and_are_metered(tmp_path, script):
    record(tmp_path, steps=16)
    size = ("--actors", "2", "--steps", "16", "--recording", str(tmp_path))
    arguments = ("--script", script, "--iterations", "2", *size)
    rates, versions = measure_ours("lab.link", *arguments, seconds=240)
    megabytes = 2 * 16 * 4 * 84 * 84 / 1e6
    assert megabytes < rates["wire_mb"] < 1.2 * megabytes
    assert rates["worker_mb"] < 0.1 * megabytes
    assert 0 < rates["transfer_s"] <= rates["wait_s"] < rates["iteration_s"]
    assert rates["moving_cpu_s"] >= 0
    assert "numpy" in versions


@needs_network
@pytest.mark.processes
def test_a_head_that_fails_is_no_answer(tmp_path):
    arguments = ("--script", "pipelining.sockets_side", "--recording", str(tmp_path / "none"))
    with pytest.raises(BaselineFailed):
        measure_ours("lab.link", *arguments, "--no-such-option", seconds=240)


@needs_network
@pytest.mark.processes
def test_a_host_counts_what_it_sends_gets_and_computes():
    with Network() as network:
        sender, receiver = network.host("a", 16), network.host("b", 16)
        sent, received = sender.sent_bytes(), receiver.received_bytes()
        with sender.python("-c", _SENDS, receiver.address, stdin=subprocess.PIPE) as process:
            until("its packets to arrive", lambda: receiver.received_bytes() > received + 3000)
            assert sender.sent_bytes() > sent + 3000
            until("CPU-seconds to be counted", lambda: sender.cpu_seconds() > 0)
            assert process.poll() is None
            assert receiver.cpu_seconds() == 0
            process.kill()
