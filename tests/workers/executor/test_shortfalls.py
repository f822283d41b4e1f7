"""What a host does in another way than the plan asks for is told."""

from __future__ import annotations

import pytest
from test_executor_parts import plan

from artos.specs.elastic import Elastic
from workers.checkpoint.tiers import Tier
from workers.executor import build
from workers.executor.build import shortfalls


@pytest.fixture
def without_images(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = Tier(False, "criu is not installed", "apt-get install criu")
    monkeypatch.setattr(build, "probe", lambda: {"checkpoint": lacks, "clone": lacks})


@pytest.mark.parametrize(
    ("elastic", "told"),
    [
        (Elastic(), []),
        (Elastic(park="checkpoint"), ["actors are frozen instead: criu is not installed (apt"]),
        (Elastic(start="clone"), ["actors are forked instead: criu is not installed (apt"]),
        (Elastic(slots=3), ["slots=3: at most 2 actors run at once on 2 CPUs here"]),
    ],
)
def test_what_is_done_in_another_way_is_told(
    elastic: Elastic, told: list[str], without_images: None
) -> None:
    found = shortfalls(plan(elastic=elastic), 2)
    assert len(found) == len(told)
    assert all(words in text for words, text in zip(told, found, strict=True))
