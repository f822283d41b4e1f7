"""A worker of another version than the head's."""

from __future__ import annotations

import pytest
from machines import Machines
from real_cluster import ROOT

from artos.version import VERSION

pytestmark = [pytest.mark.processes, pytest.mark.long]


def test_a_worker_of_another_version_is_refused(cluster: Machines) -> None:
    metadata = cluster.folder / "other" / "artos-99.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: artos\nVersion: 99.0\n")
    worker = cluster.start_worker("w1", PYTHONPATH=f"{metadata.parents[1]}:{ROOT}")
    assert worker.wait() == 2
    for said in (worker.said, cluster.head.said):
        assert "worker w1 is ARTOS 99.0" in said
        assert f"the head is ARTOS {VERSION}" in said
    assert cluster.status() == ({}, {})
    cluster.start_worker("w1")
    cluster.alive("w1")
    cluster.leave_nothing()
