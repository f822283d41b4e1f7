"""Published results: every row and every missed goal is shown, and pages say what reports say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from helpers import ROOT

from artos.errors import Refused
from evaluation.core import publish, registry, sources
from evaluation.core.benchmark import SHARED
from evaluation.core.publish import Line, readme_table, section
from evaluation.core.report import Ratio, Report, Row, read_json, write_json


def test_rows_ratios_and_what_is_missing() -> None:
    report = Report(
        name="buffer", date="2026-01-02T03:04:05+00:00",
        rows=[
            Row("write: ours", "GB/s", 12.0, 11.0, 1300.4, 3),
            Row("write: theirs", "GB/s", None, None, None, 0, "does not install"),
            Row("write: the paper's", "GB/s", 9.0, 9.0, 9.0, 1, "it also says 8"),
            Row("write: once", "GB/s", 7.0, 7.0, 7.0, 1, "failed: x | y"),
        ],
        ratios=[
            Ratio("write: ours", "write: theirs", 0.5, 0.4, 0.6, 0.9, False),
            Ratio("write: ours", "write: bare", 1.9, 1.8, 2.0, 2.0, True, "at most", "of one way"),
            Ratio("write: ours", "write: theirs", None, None, None, 2.0),
        ],
        machine={"cpu": "one", "cores": 2}, versions={},
    )  # fmt: skip
    page = section(report)
    assert "2026-01-02 03:04 UTC, commit . cpu one, cores 2. **Measured on older code.**" in page
    assert "| write: ours | 12 | 11 to 1,300 | GB/s | 3 |" in page
    assert "| write: theirs | absent | does not install |  |  |" in page
    assert "| write: the paper's | 9 | it also says 8 | GB/s | 1 |" in page
    assert "| write: once | 7 | 7 to 7; failed: x \\| y | GB/s | 1 |" in page
    assert "| write: ours | write: theirs | — | — to — | ≥ 2 | **not measured** |" in page
    assert "| write: ours | write: theirs | 0.5 | 0.4 to 0.6 | ≥ 0.9 | **no** |" in page
    assert "| write: ours | write: bare | 1.9 | 1.8 to 2; of one way | ≤ 2 | yes |" in page


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


# -- pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [publish.README, publish.PAGE], ids=lambda path: path.name)
def test_pages_have_the_published_figures(path: Path) -> None:
    """Fails also where what was measured has changed since, until the page has the mark."""
    said = f"run python -m evaluation.core.publish: {path.name} does not say what the reports say"
    assert path.read_text() == publish.pages()[path], said


def test_every_published_report_is_of_a_benchmark_and_its_figures_are_there() -> None:
    assert publish.published().keys() <= registry.BENCHMARKS.keys()
    for name, benchmark in registry.BENCHMARKS.items():
        own = "paper" if name.startswith("paper-") else name
        for one in (benchmark, *benchmark.parts.values()):
            assert {f"evaluation/{own}", *SHARED} <= {*one.measures}
            assert all((ROOT / path).exists() for path in one.measures)


def test_a_report_of_one_task_replaces_none_of_all() -> None:
    part = Report("catalogue, ES, CartPole", "2026-01-02T03:04:05+00:00", [], [], {}, {})
    with pytest.raises(Refused, match="a part of a benchmark: publish a report of the whole"):
        publish.publish(part)


def test_a_quick_run_is_not_published() -> None:
    with pytest.raises(Refused, match="triggers is of a quick run"):
        publish.publish(Report("triggers", "2026-01-02", [], [], {}, {}, quick=True))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "cores 2."), (0.0, "cores 2. Assembled from single runs."), (130.0, "It took 2 min.")],
)
def test_a_report_says_how_long_it_took(seconds: float | None, said: str) -> None:
    facts, *_ = section(report(seconds=seconds)).splitlines()
    assert facts.endswith(said)


ROWS = [
    Row(
        "speed: ARTOS", "steps/s", 2_000.0, 1_900.0, 2_100.0, 3, values=(1_900.0, 2_000.0, 2_100.0)
    ),
    Row("speed: rival", "steps/s", 500.0, 400.0, 1_000.0, 3, values=(1_000.0, 500.0, 400.0)),
    Row("wait: ARTOS", "s", 0.0114, 0.01, 0.02, 1),
    Row("wait: rival", "s", 0.2, 0.2, 0.2, 1),
]
LINE = Line("speed", "buffer", "{0}, {1} a rival", ((": ARTOS",), (": ARTOS", ": rival")), "speed")


def report(**changes: object) -> Report:
    measured = sources.digests(registry.BENCHMARKS["buffer"].measures)
    machine: dict[str, str | int | float] = {"cpu": "one", "cores": 2}
    made = Report("buffer", "2026-01-02T03:04:05", ROWS, [], machine, {}, sources=measured)
    return msgspec.structs.replace(made, **changes)


def test_a_line_has_units_from_the_report_and_says_how_far_repetitions_differ() -> None:
    table = readme_table([LINE], {"buffer": report()})
    assert "| speed | 2,000 steps/s, 4 × (1.9 to 5.25) a rival | `artos bench buffer` (" in table
    assert "†" not in table
    assert "‡" not in table


WAYS = [
    *ROWS,
    Row("speed: rival, 1 thread", "steps/s", 800.0, 800.0, 800.0, 3, values=(800.0,) * 3),
    Row("speed: rival, 2 threads", "steps/s", 1_000.0, 1_000.0, 1_000.0, 1, values=(1_000.0,)),
]


def over(way: str, median: float, goal: float | None = None) -> Ratio:
    return Ratio("speed: ARTOS", f"speed: rival{way}", median, median, median, goal)


@pytest.mark.parametrize(
    ("ratios", "shown"),
    [
        ([over(", 1 thread", 2.5)], "2.5 × a rival |"),
        ([over(", 1 thread", 2.5), over(", 2 threads", 2.0)], "2 × a rival ‡ |"),
        ([over(", 1 thread", 2.5, 1.0), over(", 2 threads", 2.0)], "2.5 × a rival |"),
        ([over(", 1 thread", 2.5, 1.0), over("", 4.0)], "4 × a rival |"),
        ([], "4 × (1.9 to 5.25) a rival |"),
    ],
)
def test_a_rival_without_its_way_is_the_one_that_was_compared_with(
    ratios: list[Ratio], shown: str
) -> None:
    table = readme_table([LINE], {"buffer": report(rows=WAYS, ratios=ratios)})
    assert f"| speed | 2,000 steps/s, {shown}" in table


def test_each_line_says_where_and_of_what_it_was_measured() -> None:
    on = {"cpu": "Intel(R) Xeon(R) Processor @ 2.00GHz", "cores": 2}
    made = report(machine=on, commit="0123456789+")  # with changes beside the commit
    assert "`artos bench buffer` (Intel Xeon, 0123456+) |" in readme_table([LINE], {"buffer": made})
    assert "commit 0123456+." in section(made)


def test_what_has_few_repetitions_or_is_of_older_code_is_marked() -> None:
    line = Line("wait", "buffer", "{0}, {1}", ((": ARTOS",), (": ARTOS", ": rival")), "wait")
    older = report(sources={"artos/buffer": "another digest"})
    table = readme_table([line], {"buffer": older})
    assert "| wait | 11.4 ms, 0.057 × † ‡ |" in table
    assert "† Measured on older code" in table
    assert "**Measured on older code.**" in section(older)


def test_a_figure_that_no_report_has_is_refused_with_all_others() -> None:
    lost = msgspec.structs.replace
    lines = [lost(LINE, figures=((": nobody",),), result="{0}"), lost(LINE, benchmark="triggers")]
    with pytest.raises(Refused) as refused:
        readme_table(lines, {"buffer": report()})
    assert len(refused.value.faults) == 2
    assert "buffer.json lacks [(': nobody',)]" in refused.value.faults[0]
    assert "triggers.json lacks everything" in refused.value.faults[1]


def test_a_page_without_a_place_for_a_report_is_refused() -> None:
    assert publish.filled("<!-- a -->\nold\n<!-- /a -->\n", {"a": "new"}) == (
        "<!-- a -->\n\nnew\n\n<!-- /a -->\n"
    )
    with pytest.raises(Refused, match="no place for b"):
        publish.filled("<!-- a -->\nold\n<!-- /a -->\n", {"b": "new"})


def test_a_digest_tells_contents_and_names_and_nothing_else(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    folder = tmp_path / "part"
    folder.mkdir()
    (folder / "a.py").write_text("one = 1\n")
    before = sources.digests(["part"])
    (folder / "notes.md").write_text("not measured")
    assert sources.changed(before, ["part"]) == []
    (folder / "a.py").rename(folder / "b.py")
    assert sources.changed(before, ["part"]) == ["part"]
    (folder / "b.py").rename(folder / "a.py")
    (folder / "a.py").write_text("one = 2\n")
    assert sources.changed(before, ["part"]) == ["part"]


def test_a_published_report_is_kept_with_the_figures_that_the_page_shows(
    tmp_path, monkeypatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("![x](figures/buffer.png)\n")
    for name, value in (("RESULTS", tmp_path), ("FIGURES", tmp_path), ("PAGE", page)):
        monkeypatch.setattr(publish, name, value)
    write_json(report(series={"ARTOS": {"actors": [1.0, 2.0]}}), tmp_path / "given.json")
    publish.publish(read_json(tmp_path / "given.json"))
    assert read_json(tmp_path / "buffer.json").rows == ROWS
    assert [path.name for path in tmp_path.glob("*.png")] == ["buffer.png"]
