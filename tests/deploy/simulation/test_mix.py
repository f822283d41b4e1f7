"""Mixes of workloads in TOML: what they mean, and every fault at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ROOT
from test_recorded_workload import write

from artos.errors import Refused
from deploy.simulation.cluster import Cluster
from deploy.simulation.durations import Constant, Exponential, LogNormal, Uniform
from deploy.simulation.mix import mix

GOOD = """
[[workload]]
name = "pong"
actors = 4
steps = 16
round = {mean = 0.5, spread = 0.2}
update = 0.25
max_lag = 1
total_updates = 5
runs = 2
every = 3
weight = 2.0
priority = 1
placement = "pack"
user = "ann"

[[workload]]
pattern = "replay"
actors = 1
steps = 4
round = {distribution = "exponential", mean = 0.01}
update = {distribution = "uniform", mean = 0.02, spread = 0.5}
batch = 8
ratio = 2
after = 16
total_steps = 400
sync = 4

[[workload]]
journal = "recorded"
arrives = 2
"""


def test_a_mix_says_what_is_simulated(tmp_path: Path) -> None:
    write(tmp_path / "recorded")
    (tmp_path / "mix.toml").write_text(GOOD)
    pong, replay, journal = mix(tmp_path / "mix.toml")
    assert (pong.user, replay.user) == ("ann", "owner")
    assert pong.durations == {
        "actors.sample": LogNormal(0.5, 0.2),
        "learner.update": Constant(0.25),
    }
    assert replay.durations == {
        "actors.sample": Exponential(0.01),
        "learner.update": Uniform(0.02, 0.5),
    }
    assert (pong.runs, pong.every, pong.weight, pong.priority) == (2, 3.0, 2.0, 1)
    assert (journal.arrives, journal.plan.name) == (2.0, "mine")
    found = Cluster(2, 2, devices=1).run([pong, replay, journal])
    runs = {run.run: run for run in found.usage}
    assert [*runs] == ["pong-1", "workload-2-1", "mine-1", "pong-2"]  # as they arrive
    assert {run.updates for run in found.usage if run.workload == "pong"} == {5}
    drawn = runs["workload-2-1"]
    assert drawn.steps == 400
    # Twice what is there beyond the first 16, in batches of 8; ahead by at most a slack of 16.
    assert drawn.updates == pytest.approx((400 - 16) * 2 / 8, abs=2)


BAD = """
[other]
x = 1

[[workload]]
actors = 0
roud = 1
pattern = "replay"
max_lag = 1
update = {mean = -1}

[[workload]]
journal = "nowhere"
steps = 3

[[workload]]
round = {mean = 1, sprad = 2}
update = {distribution = "gauss", mean = 1}
ratio = 2
weight = 0
total_steps = true
"""


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "mix.toml").write_text(BAD)
    with pytest.raises(Refused) as refused:
        mix(tmp_path / "mix.toml")
    said = [fault.partition("mix.toml: ")[2] for fault in refused.value.faults]
    for words in (
        "unknown table 'other'", "1: actors = 0", "1: unknown field 'roud': did you mean round",
        "1: max_lag: means nothing", "1: update =", "1: round: say how many", "1: total_updates",
        "2: steps: the journal", "2: ", "3: round = ", "3: update = ", "3: ratio: means nothing",
        "3: weight = 0", "3: total_steps = True", "3: total_updates",
    ):  # fmt: skip
        assert any(words in fault for fault in said), (words, said)
    assert len(said) == 15


@pytest.mark.parametrize(
    ("text", "word"), [("x = [", "no TOML"), ("", "no [[workload]]"), ("workload = 3", "no [[")]
)
def test_what_is_no_mix_is_refused(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "mix.toml").write_text(text)
    with pytest.raises(Refused) as refused:
        mix(tmp_path / "mix.toml")
    assert word in str(refused.value)
    with pytest.raises(Refused, match="No such file"):
        mix(tmp_path / "none.toml")


def test_the_mix_in_the_documents_is_the_file_and_means_something() -> None:
    file = ROOT / "docs" / "examples" / "mix.toml"
    assert (
        f"```toml\n{file.read_text()}```" in (ROOT / "docs" / "how-to" / "simulate.md").read_text()
    )
    pong, walker = mix(file)
    assert (pong.runs, pong.plan.total_updates, walker.plan.total_steps) == (4, 400, 40_000)
