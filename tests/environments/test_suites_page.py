from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import page
import pytest

from artos.envs.examination import examine
from artos.errors import Refused


def test_the_page_is_rendered_from_the_table() -> None:
    assert page.PAGE.read_text() == page.page(), "run python tests/environments/page.py"


def need(suite: dict[str, Any]) -> None:
    """Skip what is not installed here, saying how to install it."""
    if importlib.util.find_spec(suite["module"]) is None:
        pytest.skip(f"{suite['name']} is not installed: pip install {suite['installs']}")


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # of other people's packages
@pytest.mark.parametrize("suite", page.suites(), ids=lambda suite: suite["name"])
def test_a_suite(suite: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    need(suite)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    for env in suite["works"]:
        found = examine(env, 0.2)
        assert found.compared > 0 or found.differs
        assert found.stepped > 0
    for env, words in suite.get("refused", {}).items():
        with pytest.raises(Refused, match=words):
            examine(env, 0.2)
