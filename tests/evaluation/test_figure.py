"""The picture of a report is written, absent baselines included."""

from evaluation.core.figure import draw, draw_series
from evaluation.core.report import Results


def test_a_figure_is_a_png_with_a_panel_a_group(tmp_path):
    sizes = []
    for groups in (1, 3):
        results = Results("toy", repeats=2)
        for group in range(groups):
            for value in (1.0, 2.0):
                results.add(f"group {group}: ARTOS", "s", value)
            results.absent(f"group {group}: baseline", "s", "not installed")
        path = tmp_path / "figures" / f"{groups}.png"
        draw(results.report(), path)
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        sizes.append(int.from_bytes(data[20:24], "big"))
    assert sizes[1] > sizes[0]


def test_series_are_drawn_with_a_panel_a_name(tmp_path):
    sizes = []
    for names in (("actors",), ("actors", "start (s)", "learn (s)")):
        results = Results("toy", repeats=1)
        for who in ("ARTOS", "baseline"):
            results.followed(who, {name: [1.0, 2.0, 3.0] for name in names})
        path = tmp_path / "figures" / f"{len(names)}.png"
        draw_series(results.report(), path)
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        sizes.append(int.from_bytes(data[20:24], "big"))
    assert sizes[1] > sizes[0]
