"""Renders docs/environments.md from suites.toml: ``python tests/environments/page.py``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "suites.toml"
PAGE = Path(__file__).parents[2] / "docs" / "environments.md"

_HEAD = """# Environments that work

Suites that other people wrote, each tried by `tests/environments/test_suites_page.py`: made, reset,
and stepped for some hundred steps as actors do (`artos check` does the same for any other). Suites
that are not installed are skipped there, and each was tried in an environment of its own with the
versions below on 25 November 2026. A factory is a function in a file of yours.

| suite | `pip install` | `--env` | |
|---|---|---|---|
"""


def suites() -> list[dict[str, Any]]:
    """The rows of the table."""
    found: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["suite"]
    return found


def page() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(_row(suite) for suite in suites())


def _row(suite: dict[str, Any]) -> str:
    works = [f"`{env}`" for env in suite["works"]]
    refused = [f"`{env}` is refused" for env in suite.get("refused", {})]
    note = suite.get("note", "")
    envs = "<br>".join([*works, *refused])
    return f"| {suite['name']} | `{suite['installs']}` | {envs} | {note} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
