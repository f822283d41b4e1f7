"""A run's screens in a terminal: statuses and summaries as text. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from artos.protocol.views import Status
from artos.specs.members import actor_of
from deploy.display import text_curve
from head.records.episodes import Episodes
from head.records.status import Summary

_BAR, _FILL_BAR = 10, 6
_MOST_NOTES = 8
_MOST_METRICS, _MOST_KEYS = 10, 12
_GAP = 3
_NARROW = 64
"""Columns of the final screen, without labels; narrow, as logs may be 80 columns wide."""
_FRAME, _BORDER = 16, 4
"""Columns that the panel's border and labels take, and that the border alone takes."""
_LEARNER, _STARTING = "learner", "starting"
_WORKS = re.compile(r"running (.+) \(firing \d+\)")


def panel(
    status: Status, width: int, notes: Sequence[str] = (), *, ascii_only: bool
) -> RenderableType:
    """The live view of a run, ``width`` columns wide, with the newest messages below."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in _rows(status, width - _FRAME, ascii_only):
        grid.add_row(label, text)
    if name := phase(status):
        top = _starting(name)
    else:
        done = share(status)
        most = f" of {status.total_steps:,}" if status.total_steps else ""
        counts = Text.assemble(
            (f" {done:>4.0%}  {status.steps:,}", "bold"), (f"{most} steps", "dim")
        )
        top = Text(no_wrap=True)
        top.append_text(_bar(done, max(_BAR, width - _BORDER - counts.cell_len), ascii_only))
        top.append_text(counts)
        top.append("\n")
        top.append(f"{status.steps_per_second:,.0f} steps/s", "bold green")
        top.append(f"   {clock_text(status.seconds)} so far", "dim")
        top.append(f"   {clock_text(seconds_left(status))} left", "dim")
    title = f"{status.algorithm} on {status.env}"
    return _framed(title, notes, top, Text(), grid)


def start(name: str, notes: Sequence[str] = ()) -> RenderableType:
    """The live view while the run starts: only the current stage."""
    return _framed("artos", notes, _starting(name))


def phase(status: Status) -> str:
    """The stage of the start; "" once there are rows, or weights where nobody samples."""
    if status.steps_per_second > 0:
        return ""
    actors = [what for who, what in status.waits.items() if actor_of(who) is not None]
    ready = sum(what != _STARTING for what in actors)
    if status.waits.get(_LEARNER) == _STARTING:
        return f"the {_LEARNER}"
    if status.version < 0:
        return "first weights"
    if not actors:
        return ""
    return f"actors, {ready} of {len(actors)} are ready" if ready < len(actors) else "first rows"


def _starting(name: str) -> Text:
    return Text.assemble(("starting: ", "dim"), (name, "bold"))


def _framed(title: str, notes: Sequence[str], *body: RenderableType) -> RenderableType:
    frame = Panel(
        Group(*body), title=Text(f" {title} ", "bold"), title_align="left", padding=(0, 1)
    )
    return Group(frame, *(Text(note) for note in notes[-_MOST_NOTES:]))


def line(status: Status, *, over: bool = False) -> str:
    """One plain line about a run, for logs."""
    parts = [
        f"{_of(status.steps, status.total_steps, '/')} steps ({share(status):.0%})",
        f"{status.steps_per_second:,.0f} steps/s",
        f"return {_number(status.mean_return_100)}",
        f"episodes {status.episodes:,}",
        f"updates {_of(status.updates, status.total_updates, '/')}",
        f"lag {_lag(status.lag_mean)} (max {_lag(status.lag_max)})",
    ]
    if status.evaluation:
        parts.append(f"evaluated {_evaluation(status)}")
    if status.rows_stale or status.empty_draws:
        parts.append(_left_out(status))
    if status.settings:
        parts.append(f"set {_settings(status)}")
    if status.restarts or status.rows_lost:
        parts.append(f"restarts {status.restarts}, rows lost {status.rows_lost:,}")
    took, left = clock_text(status.seconds), clock_text(seconds_left(status))
    return "  ".join([*parts, f"{took} in all" if over else f"{left} left"])


def final(
    summary: Summary, episodes: Episodes, paths: Mapping[str, str], *, ascii_only: bool
) -> RenderableType:
    """The last screen of a run: a summary, a small learning curve and the paths of its files."""
    status = summary.status
    headline = (
        f"{status.algorithm} on {status.env}: {summary.outcome}, "
        f"mean return {_number(status.mean_return_100)} over the last 100 episodes"
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    steps = f"{status.steps:,} in {clock_text(status.seconds)} ({status.steps_per_second:,.0f}/s)"
    table.add_row("steps", Text(steps))
    table.add_row("updates", Text(f"{status.updates:,}"))
    table.add_row("policy lag", Text(f"mean {_lag(status.lag_mean)}, max {_lag(status.lag_max)}"))
    if status.rows_stale or status.empty_draws:
        table.add_row("max_lag", Text(_left_out(status)))
    if status.settings:
        table.add_row("set", Text(_settings(status)))
    if status.returns:
        each = (f"{name} {_number(value)}" for name, value in status.returns.items())
        table.add_row("by agent", Text(", ".join(each)))
    if status.evaluation:
        table.add_row("evaluation", Text(_evaluation(status)))
    if summary.evaluations_failed:
        why = summary.evaluations_failed.strip().splitlines()[-1]
        table.add_row("evaluation", Text(f"given up: {why}", "bold yellow"))
    table.add_row("restarts", Text(f"{status.restarts}, rows lost {status.rows_lost:,}"))
    if status.shares:
        table.add_row("time", _times(status.shares, _NARROW))
    if summary.not_restored:
        table.add_row("not resumed", Text("\n".join(summary.not_restored)))
    parts: list[RenderableType] = [Text(headline, "bold"), table]
    drawn = text_curve.draw(episodes, ascii_only=ascii_only)
    if drawn:
        caption = Text(f"\nmean return over {min(100, len(episodes))} episodes", "dim")
        parts += [caption, Text("\n".join(drawn), "cyan", no_wrap=True)]
    where = [f"{name:<11}{path}" for name, path in paths.items()]
    return Group(*parts, Text("\n" + "\n".join(where), no_wrap=True, overflow="ignore"))


def share(status: Status) -> float:
    """The share of the budget of steps or updates that is used, 0 to 1."""
    return max((min(1.0, made / most) for made, most, _ in _limits(status)), default=1.0)


def seconds_left(status: Status) -> float:
    """Seconds until the budget is used up at the present speed; infinite at speed 0."""
    seconds = [
        0.0 if made >= most else (most - made) / pace if pace > 0 else math.inf
        for made, most, pace in _limits(status)
    ]
    return min(seconds, default=0.0)


def _limits(status: Status) -> Iterable[tuple[int, int, float]]:
    """The budgets of steps and updates: how many are made, how many may be, how many a second."""
    if status.total_steps > 0:
        yield status.steps, status.total_steps, status.steps_per_second
    if status.total_updates > 0:
        yield status.updates, status.total_updates, status.updates / max(status.seconds, 1e-9)


def _of(made: int, most: int, joint: str) -> str:
    """``3 of 10``, or ``3`` if nothing limits it."""
    return f"{made:,}{joint}{most:,}" if most else f"{made:,}"


def clock_text(seconds: float) -> str:
    """``m:ss`` or ``h:mm:ss``; ``?`` if unknown."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _rows(status: Status, width: int, ascii_only: bool) -> Iterable[tuple[str, Text]]:
    mean = _number(status.mean_return_100)
    yield "return", _facts({"mean of 100": mean, "episodes": f"{status.episodes:,}"}, width)
    if status.evaluation:
        yield "evaluation", Text(_evaluation(status))
    updates = _of(status.updates, status.total_updates, " of ")
    counts = {"updates": updates, "version": f"{status.version:,}"}
    yield "learning", _facts(counts, width)
    for name, said in other_learners(status).items():
        yield name, Text(said)
    lag = {"mean": _lag(status.lag_mean), "max": _lag(status.lag_max)}
    if status.rows_stale or status.empty_draws:
        lag |= {"too old": f"{status.rows_stale:,} rows", "empty draws": f"{status.empty_draws:,}"}
    yield "policy lag", _facts(lag, width)
    if status.settings:
        yield "set", Text(_settings(status))
    if status.fill:
        some = list(status.fill.items())[:_MOST_KEYS]
        longest = max(len(name) for name, _ in some)
        parts = []
        for name, value in some:
            bar = _bar(value, _FILL_BAR, ascii_only)
            parts.append(Text.assemble((f"{name:<{longest}} ", "dim"), bar, f" {value:>4.0%}"))
        yield "buffer", _flow(parts, width)
    for label, doings in _doings(status.waits).items():
        yield label, _facts(doings, width, ": ")
    if status.metrics:
        first = list(status.metrics.items())[:_MOST_METRICS]
        yield "learner", _facts({name: _number(value) for name, value in first}, width)
    if status.shares:
        yield "time", _times(status.shares, width)
    if status.restarts or status.rows_lost:
        lost = {"restarts": str(status.restarts), "rows lost": f"{status.rows_lost:,}"}
        yield "failures", _facts(lost, width, style="bold yellow")


def other_learners(status: Status) -> dict[str, str]:
    """What is known of each learner beside the first, in a line."""
    found: dict[str, list[str]] = {}
    for name, value in status.learners.items():
        learner, _, what = name.rpartition(".")
        number = f"{value:,.0f}" if value is not None and value == int(value) else _number(value)
        found.setdefault(learner, []).append(f"{what.replace('_', ' ')} {number}")
    return {learner: "   ".join(facts) for learner, facts in found.items()}


def _settings(status: Status) -> str:
    """What was changed while the run went."""
    return ", ".join(f"{name}={value:g}" for name, value in status.settings.items())


def _doings(waits: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The members, grouped by what they work at and by what they wait for."""
    found: dict[str, dict[str, list[str]]] = {"works": {}, "waits for": {}}
    for who, what in waits.items():
        works = _WORKS.fullmatch(what)
        together = found["works" if works or what == _STARTING else "waits for"]
        together.setdefault(works[1] if works else what, []).append(who)
    return {
        label: {_names(who): what for what, who in each.items()}
        for label, each in found.items()
        if each
    }


def _names(members: Sequence[str]) -> str:
    """``learner, actors 0-3, 7``."""
    numbers = [int(number) for who in members if (number := who.removeprefix("actor ")).isdecimal()]
    others = [who for who in members if not who.removeprefix("actor ").isdecimal()]
    spans: list[list[int]] = []
    for each in sorted(numbers):
        if spans and each == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], each]
        else:
            spans.append([each])
    words = ", ".join("-".join(map(str, span)) for span in spans)
    actors = [f"actor{'s' * (len(numbers) > 1)} {words}"] if numbers else []
    return ", ".join(others + actors)


def _times(shares: Mapping[str, float], width: int) -> Text:
    """Shares of wall time: a line for the learner and a line for the actors."""
    roles: dict[str, dict[str, str]] = {}
    for name, share in shares.items():
        role, _, kind = name.partition(".")
        roles.setdefault(role, {})[kind.replace("_", " ")] = f"{share:.0%}"
    return Text("\n").join(_facts({f"{role}:": "", **part}, width) for role, part in roles.items())


def _bar(value: float, width: int, ascii_only: bool) -> Text:
    on, off = ("#", ".") if ascii_only else ("━", "─")
    cells = round(min(1.0, max(0.0, value)) * width)
    return Text.assemble((on * cells, "cyan"), (off * (width - cells), "dim"))


def _facts(facts: Mapping[str, str], width: int, joint: str = " ", style: str = "") -> Text:
    parts = [Text.assemble((name + joint, "dim"), (value, style)) for name, value in facts.items()]
    return _flow(parts, width)


def _flow(parts: Sequence[Text], width: int) -> Text:
    """The parts next to each other; one that does not fit begins a new line."""
    text, used = Text(no_wrap=True, overflow="ellipsis"), 0
    for part in parts:
        if used and used + _GAP + part.cell_len > width:
            text.append("\n")
            used = 0
        if used:
            text.append(" " * _GAP)
        text.append_text(part)
        used += part.cell_len + (_GAP if used else 0)
    return text


def _evaluation(status: Status) -> str:
    """``481.6 +- 36.8 at version 10 (2 skipped)``: what the newest evaluation gave."""
    newest = status.evaluation
    skipped = f" ({newest['skipped']:.0f} skipped)" if newest["skipped"] else ""
    spread = f"{_number(newest['mean_return'])} +- {_number(newest['std'])}"
    return f"{spread} at version {newest['version'] or 0:,.0f}{skipped}"


def _lag(value: float | None) -> str:
    """A lag in versions; ``-`` if it was not measured, which is not 0."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _left_out(status: Status) -> str:
    """What a bound on the age of drawn rows has cost."""
    return f"left out {status.rows_stale:,} rows, {status.empty_draws:,} draws found none"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if 10 <= abs(value) < 1e6 else f"{value:.3g}"
