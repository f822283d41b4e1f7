"""Pictures of what other programs get of a run: a viewer of traces, Prometheus, a tracker."""

from __future__ import annotations

import io
import json
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tensorboardX.proto.event_pb2 import Event

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_WAITING = "#d9dee4"
_STYLE: Any = {
    "svg.hashsalt": "artos", "font.size": 8.0, "axes.spines.top": False, "axes.titlesize": 7.5,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e7ec",
    "axes.axisbelow": True,
}  # fmt: skip
_SIZE = (7.0, 2.6)
_UPDATES = 4
"""So many are in the picture of a trace."""
_PANELS = (
    "Does it learn?", "How fast does it sample?", "Where do members' seconds go?",
)  # fmt: skip
_CURVES = ("run/mean_return_100", "metrics/entropy")
_HISTOGRAM = "episodes/return"
_SCRAPE = """
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs: [{job_name: artos, static_configs: [{targets: ["TARGET"]}]}]
"""
_WINDOW, _PATIENCE = "5s", 60.0


def trace(file: Path) -> bytes:
    """Some updates of a trace of ``artos trace``: a row for each member, and arrows."""
    events = json.loads(file.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X" and e["cat"] not in ("part", "rest")]
    updates = [e for e in slices if e["name"] == "update"]
    shown = updates[len(updates) // 2 :][:_UPDATES]
    since, until = shown[0]["ts"] - shown[0]["dur"], shown[-1]["ts"] + shown[-1]["dur"]
    rows = {tid: number for number, tid in enumerate(sorted(names))}
    kinds = ["sample", "update"]
    tails = {e["id"]: e for e in events if e["ph"] == "s"}

    def at(event: dict[str, Any]) -> tuple[float, int]:
        return (event["ts"] - since) / 1e3, rows[event["tid"]]

    def draw(axes: Sequence[Axes]) -> None:
        (each,) = axes
        for event in slices:
            begin, row = at(event)
            known = event["name"] in kinds
            colour = COLOURS[kinds.index(event["name"])] if known else _WAITING
            width = max(event["dur"] / 1e3, 0.8)
            if event["ts"] < until and event["ts"] + event["dur"] > since:
                colour = "#444444" if event["cat"] == "firing" else colour
                each.broken_barh([(begin, width)], (row - 0.3, 0.6), color=colour, linewidth=0)
        for head in (e for e in events if e["ph"] == "f"):
            (x, y), (u, v) = at(tails[head["id"]]), at(head)
            if x >= 0 and u <= (until - since) / 1e3:
                each.annotate(
                    "", (u, v), (x, y),
                    arrowprops={"arrowstyle": "->", "color": "#7a4fb5", "lw": 0.7},
                )  # fmt: skip
        each.set_xlim(0, (until - since) / 1e3)
        each.set_yticks(range(len(rows)), [names[tid] for tid in rows])
        each.invert_yaxis()
        each.grid(visible=False, axis="y")
        each.set_xlabel("milliseconds")

    return _drawn(draw, 1)


def tracker(folder: Path) -> bytes:
    """Two curves and a histogram of those that are in a run's ``events/``."""
    curves, histograms = defaultdict(list), []
    for event in _events(folder):
        for value in event.summary.value:
            if value.tag in _CURVES:
                curves[value.tag].append((event.step, value.simple_value))
            elif value.tag == _HISTOGRAM:
                histograms.append((event.step, value.histo))

    def draw(axes: Sequence[Axes]) -> None:
        for each, tag in zip(axes, _CURVES, strict=False):
            each.plot(*zip(*curves[tag], strict=True), color=COLOURS[0])
            each.set_title(tag)
        last = axes[-1]
        last.set_title(_HISTOGRAM)
        for number, (step, told) in enumerate(histograms):
            shade = 0.2 + 0.5 * (number + 1) / len(histograms)
            edges = [told.min, *told.bucket_limit]
            last.stairs(told.bucket, edges, fill=True, color=COLOURS[1], alpha=shade,
                        label=f"to {step:,}")  # fmt: skip
        for each in axes[:-1]:
            each.set_xlabel("environment steps")
        last.set_xlabel("return of an episode")
        last.legend(frameon=False, fontsize=7, title="environment steps", title_fontsize=7)

    return _drawn(draw, len(_CURVES) + 1)


def metrics(home: Path, train: Callable[[], object], run: str) -> bytes | None:
    """What a real Prometheus answers to panels of the board, of a run that ``train`` makes.

    None if there is no Prometheus here.
    """
    if not (prometheus := shutil.which("prometheus")):
        return None
    board = json.loads(_artos(home, "metrics", "--board"))
    panels = [panel for panel in board["panels"] if panel["title"] in _PANELS]
    with _process(home, *_command("metrics", "--listen", "127.0.0.1:0", "--json")) as serving:
        assert serving.stdout is not None
        address = json.loads(serving.stdout.readline())["address"]
        target = address.removeprefix("http://").removesuffix("/metrics")
        (home / "prometheus.yml").write_text(_SCRAPE.replace("TARGET", target))
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        at = f"127.0.0.1:{port}"
        words = ("--config.file=prometheus.yml", "--storage.tsdb.path=tsdb")
        with _process(home, prometheus, *words, f"--web.listen-address={at}"):
            _until_ready(at)
            began = time.time()
            train()
            answers = {
                panel["title"]: [
                    (target["legendFormat"], _asked(at, target["expr"], run, began))
                    for target in panel["targets"]
                ]
                for panel in panels
            }
    return _drawn(lambda axes: _draw_panels(axes, answers, began), len(answers))


def _draw_panels(axes: Sequence[Axes], answers: dict[str, Any], began: float) -> None:
    for each, (title, queries) in zip(axes, answers.items(), strict=True):
        each.set_title(title)
        each.set_xlabel("seconds")
        series = [found for _, all_of_it in queries for found in all_of_it]
        # Those that matter most: there are many kinds of seconds.
        series.sort(key=lambda one: float(one["values"][-1][1]), reverse=True)
        for number, one in enumerate(series[:4]):
            x = [at - began for at, _ in one["values"]]
            y = [float(value) for _, value in one["values"]]
            each.plot(x, y, color=COLOURS[number], label=one["metric"].get("kind", ""))
        if len(series) > 1:
            each.legend(frameon=False, fontsize=7)


def _asked(at: str, expression: str, run: str, began: float) -> Any:
    query = expression.replace("$run", run).replace("$__rate_interval", _WINDOW)
    asked = {"query": query, "start": began, "end": time.time(), "step": 0.5}
    path = f"http://{at}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(path, timeout=_PATIENCE) as answer:
        return json.load(answer)["data"]["result"]


def _until_ready(at: str) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"http://{at}/-/ready", timeout=_PATIENCE).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def _events(folder: Path) -> Iterator[Event]:
    """The records of a folder's files: a length of 8 bytes, 4 of its sum, data, 4 of their sum."""
    for file in sorted(folder.glob("events.*")):
        data, at = file.read_bytes(), 0
        while at + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            yield Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length


def _command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "deploy.cli", *words]


def _artos(home: Path, *words: str) -> str:
    return subprocess.run(
        _command(*words), cwd=home, check=True, capture_output=True, text=True
    ).stdout


@contextmanager
def _process(home: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=quiet) as process:
        try:
            yield process
        finally:
            process.terminate()


def _drawn(draw: Callable[[Sequence[Axes]], None], count: int) -> bytes:
    with rc_context(_STYLE), io.BytesIO() as file:
        figure = Figure(figsize=_SIZE, layout="constrained")
        draw([*figure.subplots(1, count, squeeze=False)[0]])
        figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()
