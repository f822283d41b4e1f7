"""The page of tables says what the algorithms are."""

from __future__ import annotations

from algorithm_tables import rows
from helpers import ROOT

PAGE = ROOT / "docs" / "expressiveness.md"


def test_the_page_has_the_tables_of_all_algorithms() -> None:
    found = [*rows()]
    page = PAGE.read_text().splitlines()
    first = page.index(found[0]) if found[0] in page else page.index("|---|---|---|---|") + 1
    assert page[first : first + len(found)] == found, "\n".join(("write", *found))


def test_the_lines_beside_other_libraries_are_the_same() -> None:
    cells = [[cell.strip() for cell in row.split("|")] for row in rows()]
    lines = {name: many for _, name, _, _, many, _ in cells if name}
    beside = PAGE.read_text().partition("## Beside")[2]
    told = [[cell.strip() for cell in row.split("|")] for row in beside.splitlines() if "|" in row]
    for _, name, many, *_ in told[2:]:
        assert lines[name] == many, name
