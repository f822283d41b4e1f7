from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.image import imread

from head.records import curve
from head.records.episodes import Episodes
from head.records.evaluations import Evaluated
from head.records.progress_log import ProgressLog
from head.records.run_folder import RunFolder

RETURNS = st.lists(st.floats(-1e6, 1e6), max_size=250)


pytestmark = pytest.mark.usefixtures("drawing")


def fill(folder: RunFolder, episodes: int) -> None:
    log = ProgressLog(folder)
    for number in range(episodes):
        log.episodes([(10 * number, float(number % 50), number % 50)])
    log.close()


@given(RETURNS.filter(len))
def test_the_running_mean_is_that_of_the_newest(returns: list[float]) -> None:
    expected = [np.mean(returns[: stop + 1][-100:]) for stop in range(len(returns))]
    column = np.array(returns)
    means = Episodes(column, column, column).running_mean(100)
    np.testing.assert_allclose(means, expected, atol=1e-6)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_return_that_is_no_number_only_spoils_the_means_that_it_is_in(odd: float) -> None:
    column = np.array([1.0, 2.0, odd, 4.0, 6.0])
    means = Episodes(column, column, column).running_mean(2)
    np.testing.assert_equal(means, [1.0, 1.5, np.nan, np.nan, 5.0])


def test_episodes_come_back_as_they_were_logged(folder: RunFolder) -> None:
    assert len(Episodes.read(folder.episodes)) == 0
    log = ProgressLog(folder)
    log.episodes([(10, 1.25, 3), (10, float("inf"), 4)])
    log.episodes([])
    log.close()
    episodes = Episodes.read(folder.episodes)
    assert episodes.steps.tolist() == [10, 10]
    assert episodes.returns.tolist() == [1.25, float("inf")]
    assert episodes.lengths.tolist() == [3, 4]


@pytest.mark.parametrize("episodes", [0, 1, 2, 300])
def test_a_curve_is_drawn_whatever_the_run_holds(folder: RunFolder, episodes: int) -> None:
    fill(folder, episodes)
    path = curve.draw(folder)
    assert path == folder.curve
    picture = imread(path)
    assert picture.shape[:2] == (585, 1040)
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 10


@pytest.mark.parametrize("episodes", [0, 300])
def test_evaluations_are_points_of_their_own(folder: RunFolder, episodes: int) -> None:
    def coloured() -> int:
        """Pixels of exactly the colour of evaluations."""
        path = curve.draw(folder)
        assert path is not None
        wanted = [int(curve._EVALUATION[at : at + 2], 16) for at in (1, 3, 5)]
        pixels = np.rint(imread(path)[..., :3] * 255).astype(int)
        return int((pixels == wanted).all(axis=-1).sum())

    fill(folder, episodes)
    assert coloured() == 0
    with ProgressLog(folder) as log:
        log.evaluated([Evaluated(v, 100 * v, v, 5.0 * v, 2.0, 10, 7.0, 0.5) for v in range(5)])
    assert coloured() > 100


@pytest.mark.parametrize(("made", "below"), [(7, "environment steps"), (0, "updates")])
def test_evaluations_of_runs_without_steps_lie_at_their_updates(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, made: int, below: str
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Axes, "set_xlabel", lambda axes, text, **look: said.append(text))
    with ProgressLog(folder) as log:
        log.evaluated([Evaluated(1, made, 10, 5.0, 2.0, 10, 7.0, 0.5)])
    assert curve.draw(folder)
    assert said == [below]


def test_very_long_runs_are_thinned_but_keep_their_last_episode() -> None:
    kept = curve._spread(1_000_000, 4_000)
    assert (len(kept), kept[0], kept[-1]) == (4_000, 0, 999_999)
    assert (np.diff(kept) > 0).all()


def test_a_curve_that_cannot_be_drawn_is_one_warning_line(
    folder: RunFolder, logged: list[str]
) -> None:
    folder.episodes.write_text("step,return,length\nnot,a,number\n")
    assert curve.draw(folder) is None
    (line,) = logged
    assert line.startswith("the learning curve was not drawn: DamagedRecord")
    assert not folder.curve.exists()


def test_a_drawing_that_fails_keeps_the_last_curve(folder: RunFolder) -> None:
    fill(folder, 3)
    curve.draw(folder)
    before = folder.curve.read_bytes()
    folder.episodes.write_text("step,return,length\nnot,a,number\n")
    assert curve.draw(folder) is None
    assert folder.curve.read_bytes() == before


@pytest.mark.processes
def test_records_and_view_load_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, head.records.curve, head.records.progress_log, artos.runs.checkpoint\n"
        "import deploy.display.view\n"
        "print([m for m in ('torch', 'matplotlib', 'tensorboardX', 'workers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_no_curve_is_drawn_where_none_is_wanted(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, 3)
    monkeypatch.setenv(curve.WANTED, "no")
    assert curve.draw(folder) is None
    assert not folder.curve.exists()
