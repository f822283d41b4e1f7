"""The trace of a real run: its arrows lead to what was caused, and not back in time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from real_runs import Outcome

from triggers.journal import read

WORDS = ("run", "ppo", "--env", "CartPole-v1", "--total-steps", "4096", "--run-dir", "runs/r")


def test_arrows_of_a_run_with_processes(artos: Callable[..., Outcome], home: Path) -> None:
    assert artos(*WORDS, "--actors", "2").status == 0
    assert artos("trace", "r", "-o", "trace.json").status == 0
    events = json.loads((home / "trace.json").read_text())["traceEvents"]
    slices = {(e["tid"], round(e["ts"], 3)) for e in events if e["ph"] == "X"}
    tails, heads = ({e["id"]: e for e in events if e["ph"] == kind} for kind in "sf")
    assert tails.keys() == heads.keys()
    for number, tail in tails.items():
        head = heads[number]
        assert head["name"] == tail["name"]
        assert head["ts"] >= tail["ts"], "nothing is caused by what comes later"
        assert (head["tid"], round(head["ts"], 3)) in slices, "a viewer would not show it"
    lines = [*read(home / "runs/r/journal.jsonl")]
    claims = sum(len(line.get("claims", ())) for line in lines if "firing" in line)
    done = Counter(line["by"].partition(" ")[0] for line in lines if "done" in line)
    found = Counter(tail["name"] for tail in tails.values())
    assert found["rows"] == claims > 0
    assert found["fires"] == done.total()
    assert 0 < found["version"] <= done["actor"]
