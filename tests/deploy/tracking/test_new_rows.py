"""Rows of a CSV are read once, also if the file is replaced by another meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.tracking.rows import NewRows


@pytest.mark.parametrize(
    ("after", "rows"),
    [
        ("a,b\n1,\n2,\n3,3\n", [("1", ""), ("2", ""), ("3", "3")]),
        ("a\n1\n4\n5\n", [("1",), ("4",), ("5",)]),
        ("a\n1\n", [("1",)]),
    ],
    ids=["one more column", "other rows", "fewer rows"],
)
def test_a_file_in_place_of_another_is_read_anew_also_under_its_number(
    tmp_path: Path, after: str, rows: list[tuple[str, ...]]
) -> None:
    """A file system may give the number of a file that is gone to the next one."""
    path = tmp_path / "progress.csv"
    path.write_text("a\n1\n2\n")
    found = NewRows(path, lambda row: tuple(row.values()))
    assert (found.read(), found.anew) == ([("1",), ("2",)], True)
    path.write_text(after)
    assert (found.read(), found.anew) == (rows, True)
    with path.open("a") as file:
        file.write("6\n")
    (last,), anew = found.read(), found.anew
    assert (last[0], anew) == ("6", False)
