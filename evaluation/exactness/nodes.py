"""Disturbs a run on a cluster: members and whole nodes are killed, nodes are drained."""

from __future__ import annotations

import random
import subprocess
import time
from contextlib import suppress

import psutil

from artos.runs.tape import tapes
from evaluation.lab.small_cluster import SmallCluster

NODES = ("w1", "w2")
_TURN_SECONDS, _COMMAND_SECONDS = 0.1, 120.0


def disturbed(
    submit: subprocess.Popen[bytes], cluster: SmallCluster, chance: random.Random, pause: float,
    seconds: float,
) -> tuple[int, int]:  # fmt: skip
    """Until the run is over, which it has to be in time; returns the kills and the drains."""
    kills = drains = 0
    drained = ""
    deadline, due = time.monotonic() + seconds, 0.0
    while submit.poll() is None and time.monotonic() < deadline:
        time.sleep(_TURN_SECONDS)
        if not any(tapes(run, "learner") for run in cluster.runs.glob("[!.]*")):
            continue  # it has not begun
        due = due or time.monotonic() + chance.expovariate(1 / pause)
        if time.monotonic() < due:
            continue
        due = time.monotonic() + chance.expovariate(1 / pause)
        node, what = chance.choice(NODES), chance.choice(("member", "node", "drain"))
        if what == "drain":
            if drained:  # for good there would be no node left
                _told(cluster, "undrain", drained, drains)
            drained = node
            drains += _told(cluster, "drain", drained, drains)
        elif what == "node":
            cluster.kill(node)
            cluster.worker(node)
            kills += 1
        else:
            with suppress(psutil.Error, IndexError):  # it has just ended
                chance.choice(cluster.members()).kill()
                kills += 1
    if submit.poll() is None:
        submit.kill()
        submit.wait()
    return kills, drains


def _told(cluster: SmallCluster, word: str, node: str, number: int) -> bool:
    """Drain a node, or have it back; returns whether that was done."""
    with suppress(subprocess.TimeoutExpired):
        return cluster.artos(f"{word}-{number}", word, node).wait(_COMMAND_SECONDS) == 0
    return False
