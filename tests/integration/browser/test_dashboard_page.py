"""The dashboard's page in a real browser: each view of a live, a finished and a killed run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from chromium import Tab, browsing
from dashboards import DRAWN, FAULT, SECONDS, TEXT, command, look, serving, started
from helpers import ROOT

from artos.pool.pool import Pool
from artos.pool.resources import Party, Resource
from head.records.episodes import Episodes

pytestmark = [pytest.mark.long, pytest.mark.processes]
pytest.importorskip("websockets")
ALL, ONE = ("curves", "cluster", "bill"), ("timeline", "path", "lags", "wiring", "logs", "run")
WINDOW = "[...new URLSearchParams(location.hash.split('?')[1])].map(([, t]) => Number(t))"
HOSTILE = "<img src=x onerror=document.title='taken'>"


def train(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    words = ("run", "ppo", "--actors", "2", "--total-steps", str(steps), "--run-dir", folder)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command(*words, "--json"), **quiet, env=env)  # type: ignore[call-overload, no-any-return]


def until_learned(folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    journal = folder / "journal.jsonl"
    while not (journal.exists() and b'"lags"' in journal.read_bytes()):
        assert time.monotonic() < deadline, "no update was made"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run that is over, one that was killed, one that goes on; and one with a hostile name."""
    root = tmp_path_factory.mktemp("runs")
    with started(train(root / "over", 4_096)) as over:
        assert over.wait(SECONDS) == 0
    with started(train(root / "killed", 10**9)) as killed:
        until_learned(root / "killed")
        killed.kill()
    shutil.copytree(root / "over", root / HOSTILE)
    (root / HOSTILE / "logs" / "run.log").write_text(f"{HOSTILE}\n")
    with started(train(root / "live", 10**9)):
        until_learned(root / "live")
        yield root


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    with serving("--runs", runs) as address:
        yield address


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browsing(tmp_path) as tab:
        yield tab


def test_each_view_is_drawn_whatever_became_of_a_run(
    tab: Tab, address: str, tmp_path: Path
) -> None:
    said = {view: look(tab, address, view) for view in ALL}
    tab.wait(DRAWN) if look(tab, address, "curves") else None
    assert "CPU s held" in said["bill"]
    for name in ("over", "killed", "live"):
        for view in ONE:
            text = look(tab, address, f"run/{name}/{view}")
            if view in ("timeline", "lags"):
                tab.wait(DRAWN)
            elif view == "wiring":
                assert tab.value("document.querySelectorAll('svg rect').length") == 4
            elif view == "path":
                assert "update" in text
            elif view == "run":
                assert {"over": "done", "killed": "failed", "live": "running"}[name] in text
            picture = tab.picture(tmp_path / f"{name}-{view}.png")
            assert picture.stat().st_size > 10_000, picture


def test_who_waits_for_its_party_is_shown_with_those_that_it_waits_for(
    tab: Tab, address: str
) -> None:
    with Pool.join([Resource("cpu:a"), Resource("cpu:b")]) as pool:
        first, _ = (pool.enter("p", name, party=Party(7, 2)) for name in ("cpu:a", "cpu:b"))
        first.ask_for_lease()
        look(tab, address, "cluster")
        tab.wait(f"{TEXT}.includes('cpu:a and cpu:b')")
        tab.wait(f"{TEXT}.includes('process {os.getpid()} has not asked for cpu:b')")


def test_rows_of_every_class_of_lags_have_a_bar(tab: Tab, runs: Path, address: str) -> None:
    folder = runs / "lagging"
    shutil.copytree(runs / "over", folder)
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"lag_histogram": {"0": 60, "1": 20, "2-3": 10, "4-7": 40}, "lag_mean": 2.25}
    (folder / "summary.json").write_text(json.dumps(summary | {"lag_max": 6}))
    said = look(tab, address, "run/lagging/lags")
    assert "130 rows, mean 2.25, at most 6 versions old" in said
    tab.wait(DRAWN)
    heights = """[0, 1, 2, 3, 4].map((i) => {
      const canvas = document.querySelector("canvas"), scale = devicePixelRatio;
      const middle = (60 + 92 * i + 46) * scale, pen = canvas.getContext("2d");
      const pixels = new Uint32Array(pen.getImageData(middle, 0, 1, 250 * scale).data.buffer);
      return pixels.filter((each) => each === 0xffad5c0b).length / scale;
    })"""
    assert tab.value(heights) == pytest.approx([220, 220 / 3, 220 / 6, 440 / 3, 0], abs=1.5)


def test_returns_that_differ_by_their_last_digit_are_drawn(
    tab: Tab, runs: Path, address: str
) -> None:
    folder = runs / "even"
    shutil.copytree(runs / "over", folder)
    file = folder / "episodes.csv"
    file.write_text("step,return,length\n" + "".join(f"{n},0.1,1\n" for n in (1, 2, 3)))
    means = Episodes.read(file).running_mean()
    assert 0 < means.max() - means.min() < 2e-17
    look(tab, address, "curves?runs=even")
    tab.wait(DRAWN)


def test_a_timeline_is_zoomed_and_moved(tab: Tab, address: str) -> None:
    look(tab, address, "run/over/timeline")
    tab.wait(DRAWN)
    place = "document.querySelectorAll('canvas')[1].getBoundingClientRect()"
    x, y = (tab.value(f"{place}.{each}") for each in ("x", "y"))
    for _ in range(4):
        tab.mouse("Wheel", x + 600, y + 60, deltaX=0, deltaY=-120)
    whole = tab.value(
        "fetch('api/runs/over/timeline').then((a) => a.json()).then((t) => [t.begin, t.end])"
    )
    all_four = 0.45 * (whole[1] - whole[0])  # the page may show what the first of them did before
    tab.wait(f"{WINDOW}.length === 2 && {WINDOW}[1] - {WINDOW}[0] < {all_four}")
    before = tab.value(WINDOW)
    assert before[1] > before[0]
    tab.mouse("Pressed", x + 600, y + 60, button="left", clickCount=1)
    tab.mouse("Moved", x + 500, y + 60, button="left", buttons=1)
    tab.mouse("Released", x + 500, y + 60, button="left", clickCount=1)
    tab.wait(f"{WINDOW}[0] > {before[0]}")
    after = tab.value(WINDOW)
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], rel=1e-6)
    tab.mouse("Moved", x + 400, y + 60)
    assert tab.errors == []


def test_the_strip_above_a_timeline_takes_to_any_part_of_the_run(tab: Tab, address: str) -> None:
    look(tab, address, "run/over/timeline")
    tab.wait(DRAWN)
    click = "[...document.querySelectorAll('button')].find((b) => b.textContent === 'zoom in')"
    for _ in range(4):
        tab.value(f"{click}.click()")
    tab.wait(f"{WINDOW}.length === 2")
    begin, end = tab.value(
        "fetch('api/runs/over/timeline').then((a) => a.json()).then((t) => [t.begin, t.end])"
    )
    strip = "document.querySelector('canvas').getBoundingClientRect()"
    x, y, wide = (tab.value(f"{strip}.{each}") for each in ("x", "y", "width"))
    left, right = x + 96, x + wide - 8  # where the bar of the whole run begins and ends
    middles = []
    tab.mouse("Pressed", left + 1, y + 15, button="left", clickCount=1)
    for share in (0.25, 0.75):
        tab.mouse("Moved", left + share * (right - left), y + 15, button="left", buttons=1)
        at = begin + share * (end - begin)
        near = f"Math.abs(({WINDOW}[0] + {WINDOW}[1]) / 2 - {at}) < {0.02 * (end - begin)}"
        tab.wait(near)
        middles.append(sum(tab.value(WINDOW)) / 2)
    tab.mouse("Released", right - 1, y + 15, button="left", clickCount=1)
    tab.mouse("Moved", left + 1, y + 15)
    assert middles[0] < middles[1] == pytest.approx(sum(tab.value(WINDOW)) / 2)
    assert tab.errors == []


def test_arrows_lead_from_each_block_to_whom_it_fires_with_counts(tab: Tab, address: str) -> None:
    look(tab, address, "run/live/wiring")
    tab.wait(
        "[...document.querySelectorAll('svg text')].some((t) => /[1-9].*\\/s$/.test(t.textContent))"
    )
    arrows = tab.value("""[...document.querySelectorAll("svg > path")].map((path) => [
      path.getAttribute("marker-end"), path.getTotalLength() > 20])""")
    edges = tab.value(
        "fetch('api/runs/live/wiring').then((a) => a.json()).then((w) => w.edges.length)"
    )
    assert arrows == [["url(#tip-of-arrow)", True]] * edges != []


def test_a_live_run_is_seen_to_go_on(tab: Tab, address: str) -> None:
    look(tab, address, "run/live/timeline")
    about = "document.getElementById('about').textContent"
    before = tab.wait(f"{about}.includes('steps') && {about}")
    tab.wait(f"{about} !== {json.dumps(before)}", SECONDS)


def asked(what: str) -> str:
    """How often the page has asked for it, as an expression."""
    names = "performance.getEntriesByType('resource').map((each) => each.name.split('/api/')[1])"
    return f"{names}.filter((name) => name?.startsWith({json.dumps(what)})).length"


def test_curves_of_a_live_run_grow(tab: Tab, address: str) -> None:
    """The page stays the same one, and who is choosing a column goes on choosing."""
    look(tab, address, "curves?runs=live")
    tab.wait(DRAWN, SECONDS)
    drawn = "document.querySelector('canvas').toDataURL()"
    tab.value("document.querySelector('select').focus()")
    before = tab.value(f"window.kept = document.querySelector('select'); {drawn}")
    tab.wait(f"{drawn} !== {json.dumps(before)}", SECONDS)
    assert tab.value("window.kept.isConnected")
    assert tab.errors == []


@pytest.mark.parametrize("view", ["bill", "run/live/lags", "run/live/run"])
def test_numbers_of_a_live_run_go_on(tab: Tab, address: str, view: str) -> None:
    before = look(tab, address, view)
    tab.wait(f"{TEXT} !== {json.dumps(before)}", SECONDS)


@pytest.mark.parametrize(
    ("view", "question"),
    [("curves?runs=over,killed", "curves"), ("run/over/lags", "runs/over/lags")],
)
def test_of_a_run_that_is_over_nothing_is_asked_again(
    tab: Tab, address: str, view: str, question: str
) -> None:
    look(tab, address, view)
    tab.wait(f"{asked('runs')} >= 4 + {asked('runs/')}", SECONDS)
    assert tab.value(asked(question)) <= 2, "once more as it is known that the run is over"


def test_names_and_logs_are_text(tab: Tab, address: str) -> None:
    for view in ALL:
        look(tab, address, view)
    tab.wait(f"document.getElementById('runs').textContent.includes({json.dumps(HOSTILE)})")
    for view in ONE:
        look(tab, address, f"run/{quote(HOSTILE)}/{view}")
        assert tab.value("document.querySelectorAll('img').length") == 0
    assert tab.value("document.title") == f"{HOSTILE} · ARTOS"
    assert HOSTILE in look(tab, address, f"run/{quote(HOSTILE)}/logs?log=run")


def test_a_fault_is_said_on_the_page(tab: Tab, address: str) -> None:
    tab.open(f"{address}#/run/nothing/timeline")
    assert "there is no run 'nothing'" in tab.wait(FAULT, SECONDS)


ABOUT = "(document.getElementById('about')?.textContent ?? '')"  # the page may not be there yet


def test_a_fault_stays_as_long_as_it_is_true(tab: Tab, address: str) -> None:
    """News of the run that come meanwhile do not take it back."""
    tab.open(f"{address}#/run/live/path?version=999999")
    tab.wait(f"{FAULT} !== ''", SECONDS)
    for _ in range(2):
        now = tab.wait(f"{ABOUT}.includes('steps') && {ABOUT}", SECONDS)
        tab.wait(f"{ABOUT} !== {json.dumps(now)}", SECONDS)
    assert "999999" in tab.value(FAULT)


@pytest.mark.parametrize("view", ONE)
def test_a_run_whose_journal_is_gone_says_so_or_shows_what_there_is(
    tab: Tab, runs: Path, tmp_path: Path, view: str
) -> None:
    folder = tmp_path / "runs" / "bare"
    shutil.copytree(runs / "over", folder)
    (folder / "journal.jsonl").unlink()
    with serving("--runs", folder.parent) as address:
        tab.open(f"{address}#/run/bare/{view}")
        tab.wait(f"{ABOUT}.includes('steps')", SECONDS)
        tab.wait("document.querySelector('#view[data-ready]') !== null", SECONDS)
        said = tab.value(FAULT)
        assert said.count("journal.jsonl") == 1 if said else tab.value(TEXT)


def test_the_log_that_is_shown_is_the_one_that_is_named(
    tab: Tab, runs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "killed"
    shutil.copytree(runs / "over", folder)
    for log in (folder / "logs").iterdir():
        log.unlink()
    (folder / "logs" / "actor-0.log").write_text("said by actor 0\n")
    with serving("--runs", folder.parent) as address:
        assert "said by actor 0" in look(tab, address, "run/killed/logs")
        assert tab.value("document.querySelector('select').value") == "actor-0"


def test_runs_are_ticked_to_see_only_their_curves(tab: Tab, address: str) -> None:
    look(tab, address, "curves")
    for name, drawn in (("over", ["over"]), ("killed", ["over", "killed"]), ("over", ["killed"])):
        tick = f"document.querySelector('[aria-label=\"curves of {name}\"]')"
        tab.wait(f"{tick} !== null")
        tab.value(f"{tick}.click()")
        tab.wait(
            f"new URLSearchParams(location.hash.split('?')[1]).get('runs') === '{','.join(drawn)}'"
        )
        keys = "[...document.querySelectorAll('.key')].map((key) => key.textContent).sort().join()"
        tab.wait(f"{keys} === '{','.join(sorted(drawn))}'")
    look(tab, address, "bill")
    assert tab.value("document.querySelectorAll('#runs input').length") == 0
    assert tab.errors == []


def before(tab: Tab, script: str) -> None:
    """Have pages that are opened from now on run this before their own module."""
    tab.tell("Page.addScriptToEvaluateOnNewDocument", source=script)


def hide(tab: Tab, *, hidden: bool) -> None:
    """As if another tab were looked at, or this one again."""
    tab.value(f"""Object.defineProperty(document, "hidden", {{value: {json.dumps(hidden)},
      configurable: true}}), document.dispatchEvent(new Event("visibilitychange"))""")


@pytest.mark.parametrize("view", ["run/live/timeline", "cluster"])
def test_a_page_that_nobody_looks_at_holds_no_connection(tab: Tab, address: str, view: str) -> None:
    before(
        tab,
        """window.streams = [], window.EventSource = class extends EventSource {
      constructor(...all) { super(...all); streams.push(this); }
    }""",
    )
    look(tab, address, view)
    open_ = "streams.filter((each) => each.readyState === 1).length"
    tab.wait(f"{open_} === 1")
    hide(tab, hidden=True)
    assert tab.value("streams.every((each) => each.readyState === 2)")
    hide(tab, hidden=False)
    tab.wait(f"{open_} === 1")
    assert tab.value("streams.length") == 2


LATE = """const answered = window.fetch, late = [];
window.held = "no such question", window.late = late;
window.fetch = async (path, ...more) => {
  const mine = String(path).includes(held), answer = await answered(path, ...more);
  if (!mine) return answer;
  const found = await answer.json();
  await new Promise((resolve) => late.push(resolve));
  return {status: 200, json: async () => ({...found, exact: false})};
};"""
"""Answers to questions that have ``held`` in them come once they are let go, as of samples."""


def test_a_late_answer_does_not_take_a_newer_ones_place(tab: Tab, address: str) -> None:
    before(tab, LATE)
    look(tab, address, "run/over/timeline")
    said = "document.querySelector('.bar > span').textContent"
    click = "[...document.querySelectorAll('button')].find((b) => b.textContent === {!r}).click()"
    tab.value("held = '/timeline'")
    tab.value(click.format("all"))
    tab.wait("late.length === 1")
    tab.value("held = 'no such question'")
    tab.value(click.format("zoom in"))
    zoomed = tab.value(said)
    tab.wait(f"{asked('runs/over/timeline')} === 3")
    time.sleep(0.5)
    tab.value("late.forEach((each) => each())")
    time.sleep(0.5)
    assert tab.value(said) == zoomed
    assert "is a sample" not in zoomed


def test_a_log_is_not_shown_twice_where_answers_are_slow(tab: Tab, address: str) -> None:
    before(tab, LATE)
    look(tab, address, "run/over/logs")
    text = tab.value("document.querySelector('pre').textContent")
    tab.value("held = 'offset='")
    tab.wait("late.length === 1")
    time.sleep(4)
    assert tab.value("late.length") == 1, "it asks one after another"
    tab.value("held = 'no such question', late.forEach((each) => each())")
    time.sleep(2)
    assert tab.value("document.querySelector('pre').textContent") == text


def test_a_name_that_is_no_text_does_not_hide_the_others(
    tab: Tab, runs: Path, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    for name in ("over", "no\udcfftext"):
        shutil.copytree(runs / "over", root / name)
    with serving("--runs", root) as address:
        look(tab, address, "cluster")
        tab.wait("document.querySelectorAll('#runs a').length === 2")
        tab.wait("document.querySelectorAll('#view a').length === 2")
        link = "[...document.querySelectorAll('#runs a')].find((a) => a.textContent !== 'over')"
        view = tab.value(f"{link}.getAttribute('href')").removeprefix("#/")
        look(tab, address, view)
        tab.wait(DRAWN)
        assert tab.errors == []


def test_devices_of_a_head_are_those_that_learners_lease(tab: Tab, address: str) -> None:
    """A learner that computes without a lease holds none."""
    before(
        tab,
        """window.EventSource = class extends EventSource {
      set onmessage(act) {
        super.onmessage = ({data}) => {
          const found = JSON.parse(data), usage = {device_seconds_held: performance.now() / 500};
          const run = (leases) => ({...found.runs[0], outcome: "", facts: {usage, leases}});
          const runs = [run({}), run({learner: "cpu:a", model: "cpu:b"})];
          act({data: JSON.stringify({...found, pool: null, runs})});
        };
      }
    }""",
    )
    look(tab, address, "cluster")
    tab.wait("document.querySelector('canvas') !== null")
    tip, place = "document.getElementById('tip')", "document.querySelector('canvas')"
    move = f"{place}.dispatchEvent(new MouseEvent('mousemove', {{clientX: 0, clientY: 0}}))"
    tab.wait(f"{move}, {tip}.textContent.includes('devices that learners lease: 2 at')")


def test_the_path_of_a_version_is_that_of_the_learner_that_is_chosen(
    tab: Tab, runs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "two"
    shutil.copytree(runs / "over", folder)
    config = json.loads((folder / "config.json").read_text())
    triggers = config["plan"]["triggers"]
    triggers |= {"model.update": triggers["learner.update"]}
    (folder / "config.json").write_text(json.dumps(config))
    with serving("--runs", folder.parent) as address:
        assert "learner" in look(tab, address, "run/two/path?version=1")
        choice = "document.querySelector('select[aria-label=learner]')"
        assert tab.value(f"[...{choice}.options].map((each) => each.value)") == ["learner", "model"]
        tab.value(f"{choice}.value = 'model'; {choice}.parentElement.lastChild.click()")
        assert "no update of model is known" in tab.wait(FAULT)
