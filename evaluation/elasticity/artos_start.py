"""The cost of starting an actor of ARTOS, and of parking it and bringing it back.

``python -m evaluation.elasticity.artos_start start --way clone --repeats 5 --together 1,16``
answers with ``one_s``, seconds until a new actor is ready, with its environment reset; ``first_s``,
the same for the very first actor, which waits for the template; ``together_s.N`` and ``mb.N``, the
seconds for N actors at once and the private memory of each. All are medians.

``python -m evaluation.elasticity.artos_start park --park checkpoint --images tmpfs`` answers with
``out_s``, seconds from asking a parked actor that has run to bind the weights until it has
answered; ``into_s``, from an answer until the actor is parked; ``freed_mb``, the memory that
parking freed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from artos.runs.plan import Plan
from evaluation.baselines.timing import answer
from evaluation.elasticity.workplace import Workplace, pong
from workers.actors.actor_record import State
from workers.actors.memory import private_mb
from workers.checkpoint.tiers import probe

_PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "psutil")
_RESTS = {"memory": State.PARKED, "freeze": State.FROZEN, "checkpoint": State.CHECKPOINTED}
_TIERS = {"clone": "clone", "fork": "fork", "cold": "memory"}
_BUDGET = 1 << 32


def require(tier: str) -> None:
    """Check that this host has a tier.

    Raises:
        SystemExit: the host does not have it, and why.
    """
    found = probe()[tier]
    if not found.available:
        raise SystemExit(f"no {tier} on this host: {found.reason}")


# -- new actors --------------------------------------------------------------------------------


def starts(plan: Plan, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds and memory of new actors, one after the other and several at once."""
    require(_TIERS[options.way])
    with Workplace(plan, folder, start=options.way) as place:
        found = {"first_s": place.start(0)}
        found["one_s"] = statistics.median(_one(place) for _ in range(options.repeats))
        for number in options.together:
            actors = range(1, number + 1)
            seconds = place.start(*actors)
            megabytes = statistics.median(private_mb(place.pid(actor)) for actor in actors)
            place.end(*actors)
            found |= {f"together_s.{number}": seconds, f"mb.{number}": megabytes}
    return found


def _one(place: Workplace) -> float:
    seconds = place.start(1)
    place.end(1)
    return seconds


# -- parked actors -----------------------------------------------------------------------------


def parked(plan: Plan, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds in and out of a tier, and the memory given back there."""
    require(options.park)
    state, into, out = _RESTS[options.park], [], []
    room = {"image_mb": "1000"} if options.images == "tmpfs" else {}
    with Workplace(plan, folder, park=options.park, images=options.images, **room) as place:
        place.start(0)
        place.invoke(0, rows=plan.steps)
        for _ in range(options.repeats):
            into.append(place.rests(0, state))
            if options.uncached:
                forget_cached(folder / "images")
            out.append(place.invoke(0))
        place.rests(0, state)
        freed = _freed(place, options, state)
    middle = statistics.median
    return {"into_s": middle(into), "out_s": middle(out), "freed_mb": freed}


def _freed(place: Workplace, options: argparse.Namespace, state: State) -> float:
    """Private memory of an actor that came back, minus what it takes once it is parked again."""
    sizes: list[float] = []
    place.on_answer = lambda: sizes.append(private_mb(place.pid(0)))
    place.invoke(0)
    place.rests(0, state)
    if options.park != "checkpoint":
        return sizes[0] - private_mb(place.pid(0))
    if options.images != "tmpfs":
        return sizes[0]
    files = Path(place.node.site.folder, "images", "actor-0").iterdir()
    return sizes[0] - sum(path.stat().st_size for path in files) / 1e6


def forget_cached(folder: Path) -> None:
    """Have the kernel write the files of a folder to disk and drop them from its cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# -- the command line --------------------------------------------------------------------------

Case = Callable[[Plan, Path, argparse.Namespace], Mapping[str, float]]


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    cases = parser.add_subparsers(required=True)
    start = _case(cases, "start", starts)
    start.add_argument("--way", choices=sorted(_TIERS), default="clone")
    start.add_argument("--together", type=_numbers, default=(), help="how many at once: 1,2,16")
    park = _case(cases, "park", parked)
    park.add_argument("--park", choices=sorted(_RESTS), default="memory")
    park.add_argument("--images", default="disk", help="disk, tmpfs or a folder")
    park.add_argument("--uncached", action="store_true", help="drop images from the page cache")
    return parser.parse_args(arguments)


def _case(cases: Any, name: str, run: Case) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = cases.add_parser(name)
    parser.set_defaults(run=run, together=())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--envs", type=int, default=4, help="environments an actor")
    parser.add_argument("--steps", type=int, default=128, help="steps a round")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def main() -> None:
    """Measure once."""
    options = options_of()
    plan = pong(1 + max((1, *options.together)), options.envs, options.steps)
    with tempfile.TemporaryDirectory() as folder:
        answer(options.run(plan, Path(folder), options), _PACKAGES)


if __name__ == "__main__":
    main()
