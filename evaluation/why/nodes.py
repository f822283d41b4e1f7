"""A head and a worker for one run: hosts of their own, with a link that may be slow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from evaluation.lab.small_cluster import NoCluster, SmallCluster
from evaluation.why.cases import QUOTA, Case, Settings, Way, words_of

_MBIT = 100.0
_SECONDS = 900.0


def on_cluster(case: Case, settings: Settings, home: Path) -> Path:
    """Make the run of a case with these settings; returns its folder.

    Raises:
        NoCluster: there are no namespaces here, or the run failed.
    """
    with SmallCluster(home, _config(settings), _SECONDS) as cluster:
        worker = cluster.worker("w")
        if case.way is Way.LINK:
            worker.throttle(_MBIT)
        workload = _alone(case.workload, home / "code")
        words = ("submit", workload, *words_of(settings), "--wait", "--json")
        if cluster.artos("submit", *words).wait(_SECONDS):
            raise NoCluster(cluster.said("submit")[-2_000:])
    (config,) = cluster.runs.glob("*/config.json")  # the head's own files are there, too
    return config.parent


def _alone(workload: str, folder: Path) -> str:
    """The workload in a folder of its own: all of the folder that it is in travels with a run."""
    file, _, name = workload.rpartition(":")
    folder.mkdir()
    return f"{shutil.copy(file, folder)}:{name}"


def _config(settings: Settings) -> str:
    if QUOTA not in settings:
        return ""
    return f"[quotas.users]\nowner = {{ slots = {json.loads(settings[QUOTA])} }}\n"
