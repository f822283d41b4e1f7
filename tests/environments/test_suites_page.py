"""The page of environments says what came of trying them, and trying them again says the same."""

from __future__ import annotations

import os
from typing import Any

import page
import pytest
import trying

VARIABLE = "ARTOS_TEST_SUITES"
AT_HAND = ("Gymnasium", "Box2D", "MuJoCo", "Arcade Learning Environment", "Procgen")
"""Suites of which most is installed here, and one that cannot be."""
WHY_NOT = f"downloads a suite of other people's, minutes for all of them; {VARIABLE}=1 tries them"


def test_the_page_is_rendered_from_table_and_results() -> None:
    assert page.PAGE.read_text() == page.page(), "run python tests/environments/page.py"


def came_out(suite: dict[str, Any], found: dict[str, Any]) -> None:
    """What came of a suite is what its row of the table says."""
    wanted = suite.get("uninstallable", "")
    assert wanted in found["error"]
    assert bool(found["error"]) == bool(wanted), found["error"]
    refused = suite.get("refused", {})
    if not wanted:
        assert [*found["envs"]] == [*suite["works"], *refused]
    for env, verdict in found["envs"].items():
        assert refused.get(env, "works") in verdict, f"{env}: {verdict}"


@pytest.mark.parametrize("suite", page.suites(), ids=lambda suite: suite["name"])
def test_the_results_are_those_of_the_table(suite: dict[str, Any]) -> None:
    assert suite["name"] in page.results(), "run python tests/environments/trying.py"
    came_out(suite, page.results()[suite["name"]])


def test_no_result_is_left_of_a_suite_that_is_gone() -> None:
    assert page.results().keys() == {suite["name"] for suite in page.suites()}


@pytest.fixture(scope="module")
def _index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where pip reaches no index of packages, as then it finds nothing, whatever there is."""
    python = trying.environment(tmp_path_factory.mktemp("index") / "venv")
    done = trying.pip(python, "--no-deps", "--force-reinstall", "farama-notifications")
    if done.returncode:
        pytest.skip(f"pip reaches no index: {done.stderr.strip().splitlines()[-1]}")


@pytest.mark.long
@pytest.mark.usefixtures("_index")
@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(
            suite,
            id=suite["name"],
            marks=pytest.mark.skipif(
                suite["name"] not in AT_HAND and not os.environ.get(VARIABLE), reason=WHY_NOT
            ),
        )
        for suite in page.suites()
    ],
)
def test_a_suite_is_installed_and_tried(suite: dict[str, Any]) -> None:
    came_out(suite, trying.tried(suite))
