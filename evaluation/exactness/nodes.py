"""Disturbs a run on a cluster: members and nodes are killed, nodes drained, actors come and go."""

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
    submit: subprocess.Popen[bytes], cluster: SmallCluster, chance: random.Random, actors: int,
    pause: float, seconds: float,
) -> tuple[int, int]:  # fmt: skip
    """Until the run is over, which it has to be in time; returns the kills and the other changes.

    It is to have 1 to ``actors`` actors.
    """
    kills = changes = 0
    drained = ""
    deadline, due = time.monotonic() + seconds, 0.0
    while submit.poll() is None and time.monotonic() < deadline:
        time.sleep(_TURN_SECONDS)
        begun = [run for run in cluster.runs.glob("[!.]*") if tapes(run, "learner")]
        if not begun:
            continue
        due = due or time.monotonic() + chance.expovariate(1 / pause)
        if time.monotonic() < due:
            continue
        due = time.monotonic() + chance.expovariate(1 / pause)
        node, what = chance.choice(NODES), chance.choice(("member", "node", "drain", "scale"))
        if what == "drain":
            if drained:  # for good there would be no node left
                _told(cluster, changes, "undrain", drained)
            drained = node
            changes += _told(cluster, changes, "drain", drained)
        elif what == "scale":
            count = chance.randint(1, actors)
            changes += _told(cluster, changes, "scale", begun[0].name, str(count))
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
    return kills, changes


def _told(cluster: SmallCluster, number: int, *words: str) -> bool:
    """Give the head a command; returns whether it was done."""
    with suppress(subprocess.TimeoutExpired):
        return cluster.artos(f"{words[0]}-{number}", *words).wait(_COMMAND_SECONDS) == 0
    return False
