"""Makes the pictures of the pages in docs/how-to: ``python docs/web/pictures.py [NAME…]``.

Each is a figure of real runs, by ``artos plot``; that of a report is a screenshot by Chromium, that
of metrics is what a Prometheus has. Without these programs those pictures stay as they are.
``--steps N`` makes no run longer, to see whether it all still works.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import seen
from PIL import Image

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "figures" / "how-to"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PPO = "ppo --env CartPole-v1"
_ASYNCHRONOUS = f"{_PPO} --actors 2 --set max_lag=1 --set steps=64"
_SAME = ("first", "again", "and-again")
_SLOW = f"{ROOT}/evaluation/why/planted.py:workload --set step_s=0.02"
_DOORS = f"{ROOT}/docs/examples/my_branches.py:workload"


@dataclass(frozen=True)
class Picture:
    """A ``figure`` of ``runs``: their names, and the words of ``artos run`` that make them.

    Each makes so many ``steps``; ``words`` are those of ``artos plot``.
    """

    runs: Mapping[str, str]
    steps: int
    figure: str = "return-by-steps"
    words: tuple[str, ...] = ("--by", "seed")


PICTURES = {
    "figures": Picture(
        {f"lr-{lr}-seed-{seed}": f"{_PPO} --inline --set lr={lr} --seed {seed}"
         for lr in (0.001, 0.0001) for seed in (1, 2, 3)},
        40_000,
    ),
    "why-before": Picture({"one-actor": f"{_SLOW} --actors 1"}, 192, "timeline", ()),
    "why-after": Picture({"two-actors": f"{_SLOW} --actors 2"}, 192, "timeline", ()),
    "exact-replay": Picture(dict.fromkeys(_SAME, _ASYNCHRONOUS), 20_000, words=()),
    "branch": Picture(
        {f"{name}-seed-{seed}": f"{_DOORS} --set branch={branch} --seed {seed}"
         for name, branch in (("branches", "true"), ("plain", "false")) for seed in (1, 2, 3)},
        40_000,
    ),
}  # fmt: skip
REPORT, TRACE, TRACKERS, METRICS = "report", "trace", "trackers", "metrics"
_FIRST = PICTURES["exact-replay"]
_LONG = 300_000
"""Steps of a run that Prometheus looks at."""


def artos(*words: str, home: Path) -> None:
    """Run a command of ARTOS in a folder."""
    command = [sys.executable, "-P", "-m", "deploy.cli", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=home, env=environment, check=True, stdout=subprocess.DEVNULL)


def made(picture: Picture, home: Path, most: int) -> bytes:
    """Run what it is of, and draw that."""
    for name, words in picture.runs.items():
        steps = ["--total-steps", str(min(most, picture.steps))]
        if not (home / "runs" / name).exists():
            artos("run", *words.split(), *steps, "--run-dir", f"runs/{name}", "--json", home=home)
    runs = [f"runs/{name}" for name in picture.runs]
    artos("plot", *runs, *picture.words, "-o", "drawn", home=home)
    return (home / "drawn" / f"{picture.figure}.svg").read_bytes()


def screenshot(home: Path, browser: str) -> Path:
    """The begin of a report, in few colours."""
    artos("report", "first", "-o", "first.html", home=home)
    file = home / "report.png"
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=900,1000",
         f"--screenshot={file}", (home / "first.html").as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    Image.open(file).convert("RGB").quantize(48).save(file, optimize=True)
    return file


def of_others(name: str, home: Path, most: int) -> bytes | None:
    """What other programs show of a run; None if they are not here."""
    if name == METRICS:
        steps = str(min(most, _LONG))
        words = (*_PPO.split(), "--actors", "2", "--total-steps", steps, "--run-dir", "runs/shown")
        return seen.metrics(home, lambda: artos("run", *words, "--json", home=home), "shown")
    made(_FIRST, home, most)
    if name == TRACE:
        artos("trace", "first", "-o", "trace.json", home=home)
        return seen.trace(home / "trace.json")
    if name == TRACKERS:
        return seen.tracker(home / "runs" / "first" / "events")
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return screenshot(home, browser).read_bytes() if browser else None


def main() -> None:
    """Make those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [*PICTURES, REPORT, TRACE, TRACKERS, METRICS]
    parser.add_argument("names", nargs="*", metavar="NAME", default=every)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("-o", "--output", type=Path, default=PLACE)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = str(ROOT)
    with TemporaryDirectory() as folder:
        home = Path(folder)
        for name in options.names:
            if name in PICTURES:
                content: bytes | None = made(PICTURES[name], home, options.steps)
            else:
                content = of_others(name, home, options.steps)
            path = options.output / f"{name}.{'png' if name == REPORT else 'svg'}"
            if content is None:
                needs = "Chromium" if name == REPORT else "Prometheus"
                print(f"no {needs} is here: {path.name} stays as it is")
            else:
                path.write_bytes(content)
                print(f"{path}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
