"""Rows that are handed over to one learner and drawn by another, where they come from nodes."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from clusters import Cluster

from artos.runs.checkpoint import read_manifest

pytestmark = [pytest.mark.processes, pytest.mark.long]

RUNS = Path(__file__).parents[1] / "runs"
MIXED, NODES = "mixing.py:mixed", {0: "w1", 1: "w2"}


def test_a_stopped_run_goes_on_with_the_rows_that_were_handed_over(
    cluster: Cluster, code: Path
) -> None:
    shutil.copy(RUNS / "mixing.py", code)
    cluster.begin(MIXED, total_steps=1_000_000)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    drawn = code / "drawn.jsonl"
    cluster.until(lambda: drawn.exists() and len(drawn.read_text().splitlines()) > 4)
    cluster.stop()
    cluster.finish()
    saved = read_manifest(cluster.run_folder / "checkpoint")
    assert saved.rows_file is not None

    cluster.begin(MIXED, resume=True, total_steps=saved.steps + 960)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)
    again = cluster.finish()
    assert (again["outcome"], again["restarts"], again["rows_lost"]) == ("done", 0, 0)
    claims = [
        claim
        for line in (code / "handed.jsonl").read_text().splitlines()
        for claim in json.loads(line)
    ]
    for actor, border in enumerate(saved.rows):
        rounds = [(begin, stop) for _, rank, begin, stop in claims if rank == actor]
        assert all(stop == begin for (_, stop), (begin, _) in pairwise(rounds)), "each row once"
        assert border in [begin for begin, _ in rounds]
    oldest = [line[1] for line in map(json.loads, drawn.read_text().splitlines()) if line[0] == 1]
    assert oldest[0] < min(saved.rows), "rows of before are drawn"
    assert cluster.survivors() == []
