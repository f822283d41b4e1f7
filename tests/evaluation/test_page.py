"""Benchmark pages: every row and every missed goal is shown."""

from __future__ import annotations

from evaluation.core.page import section
from evaluation.core.report import Ratio, Report, Row


def test_rows_ratios_and_what_is_missing() -> None:
    report = Report(
        name="buffer", date="2026-01-02T03:04:05+00:00",
        rows=[
            Row("write: ours", "GB/s", 12.0, 11.0, 1300.4, 3),
            Row("write: theirs", "GB/s", None, None, None, 0, "does not install"),
        ],
        ratios=[
            Ratio("write: ours", "write: theirs", 0.5, 0.4, 0.6, 0.9, False),
            Ratio("write: ours", "write: bare", 1.9, 1.8, 2.0, 2.0, True, "at most"),
        ],
        machine={"cpu": "one", "cores": 2}, versions={},
    )  # fmt: skip
    page = section(report)
    assert "2026-01-02 03:04 UTC. cpu one, cores 2." in page
    assert "| write: ours | 12 | 11 to 1,300 | GB/s | 3 |" in page
    assert "| write: theirs | absent | does not install |  |  |" in page
    assert "| write: ours | write: theirs | 0.5 | 0.4 to 0.6 | ≥ 0.9 | **no** |" in page
    assert "| write: ours | write: bare | 1.9 | 1.8 to 2 | ≤ 2 | yes |" in page


def test_goals_of_cases_have_columns_where_there_are_any() -> None:
    rows = [
        Row("unpark: ours", "ms", 0.5, 0.4, 0.6, 3, "", 1.0, True, "at most"),
        Row("unpark: theirs", "ms", None, None, None, 0, "does not install"),
    ]
    report = Report("elasticity", "2026-01-02T03:04:05+00:00", rows, [], {}, {})
    page = section(report)
    assert "| case | median | smallest to largest | unit | n | goal | holds |" in page
    assert "| unpark: ours | 0.5 | 0.4 to 0.6 | ms | 3 | ≤ 1 | yes |" in page
    assert "| unpark: theirs | absent | does not install |  |  |  |  |" in page
