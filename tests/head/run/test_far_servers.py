"""A run whose actors ask a server has them on the machine of that server."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.errors import Refused
from artos.system.signals import StopRequests
from head.run.preparation import begun
from head.run.request import Request


def test_on_a_cluster_it_is_refused_before_anything_is_there(tmp_path: Path) -> None:
    settings = {"inference": "central", "hidden": "8"}
    request = Request("ppo", settings, inline=True, folder=tmp_path)
    why = "inference: a server answers the actors of its own machine.*set inference=actor"
    with (
        StopRequests() as requests,
        pytest.raises(Refused, match=why),
        begun(request, requests, None),
    ):
        pytest.fail("it began")
    assert not [*tmp_path.iterdir()]
