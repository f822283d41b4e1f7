"""Renders docs/environments.md from suites.toml and results.json: ``python page.py``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

TABLE, RESULTS = (Path(__file__).with_name(name) for name in ("suites.toml", "results.json"))
PAGE = Path(__file__).parents[2] / "docs" / "environments.md"

_HEAD = """# Environments that work

Suites that other people wrote. `tests/environments/trying.py` ran each line on the day and with the
commit of ARTOS that are named: pip installed the suite into an environment of its own, in which
all that is installed here can be imported, and `artos check` made, reset and stepped each
environment there, as it does any other. `tests/environments/results.json` has the versions of all
packages. A long test, `tests/environments/test_suites_page.py`, runs the lines again, and fails if
anything else comes of them. A factory is a function in a file of yours.

| suite | installed by | `--env` | tried | |
|---|---|---|---|---|
"""


def suites() -> list[dict[str, Any]]:
    """The rows of the table."""
    found: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["suite"]
    return found


def results() -> dict[str, Any]:
    """What came of trying each suite, by its name."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def page() -> str:
    """The page as Markdown."""
    came = results()
    return _HEAD + "".join(_row(suite, came.get(suite["name"])) for suite in suites())


def _row(suite: dict[str, Any], came: dict[str, Any] | None) -> str:
    name, line = suite["name"], f"`pip install {suite['installs']}`"
    if came is None:
        return f"| {name} | {line} | | not tried | |\n"
    said = [
        f"`{env}`" + " is refused" * (verdict != "works") for env, verdict in came["envs"].items()
    ] or [f"cannot be installed: {came['error']}"]
    when = f"{came['date']}, Python {came['python']}, {came['commit']}"
    return f"| {name} | {line} | {'<br>'.join(said)} | {when} | {suite.get('note', '')} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
