"""The page about mutants: a table by module, what was accepted and why, what still survives."""

from __future__ import annotations

import datetime
import platform
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant

PAGE = Path("docs/mutants.md")
ACCEPTED = Path(__file__).with_name("accepted.toml")
NOTICED = ("killed", "timeout", "segfault")
NOT_RUN = ("not checked", "check was interrupted by user")

HEAD = """# Mutants

`make mutants` changes one thing at a time in the modules that decide (buffer, triggers, channel,
ledger, scheduler, receiver, sender, slots, tier policy) and runs the tests that reach it. If no
test notices a change, the mutant survives and the tests have a hole. The score is the share of
mutants that were noticed, among those not accepted. A `timeout` means that the tests did not end;
it counts as noticed. A module has a score once all of its mutants have been run. The goal is 95 %.
It takes long, so it is not part of `make test`; you may stop it at any time, and the next call
continues.

[mutmut](https://mutmut.readthedocs.io) makes the mutants. It leaves out decorated functions
(properties), module constants and defaults of fields. Cosmic Ray would change these too, but it
starts a pytest process per mutant, which takes several times as long.
"""


@dataclass(frozen=True)
class Mutant:
    """One change: the file it is in, its name, and what came of it."""

    path: str
    name: str
    status: str

    @cached_property
    def change(self) -> str:
        """The lines removed and added, as in a diff."""
        lines = get_diff_for_mutant(self.name, path=self.path).splitlines()
        marks = (line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in marks)

    @property
    def where(self) -> str:
        """The function, as one would write it."""
        return re.sub(r"\.(xǁ|x_)", ".", self.name.partition("__mutmut")[0]).replace("ǁ", ".")


def write(mutants: Sequence[Mutant]) -> None:
    """Write the page."""
    left = (mutant for mutant in mutants if mutant.status not in (*NOTICED, *NOT_RUN))
    reasons = {mutant: why for mutant in left if (why := _reason(mutant))}
    parts = [HEAD, _when(), "\n".join(_table(mutants, reasons)), *_accepted(reasons)]
    PAGE.write_text("\n".join([*parts, *_survivors(mutants, reasons)]))
    print(f"\n{PAGE}: {_table(mutants, reasons)[-1]}")


def is_accepted(mutant: Mutant) -> bool:
    """Whether it is a survivor that needs no test."""
    return mutant.status not in NOT_RUN and bool(_reason(mutant))


@cache
def _rules() -> list[dict[str, str]]:
    rules: list[dict[str, str]] = tomllib.loads(ACCEPTED.read_text())["accepted"]
    return rules


def _reason(mutant: Mutant) -> str:
    for rule in _rules():
        found = re.search(rule.get("where", ""), mutant.where)
        if found and re.search(rule["change"], mutant.change):
            return rule["why"]
    return ""


def _when() -> str:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    python = f"Python {platform.python_version()}, {platform.machine()}"
    when = f"{datetime.date.today()}, commit {commit}, {python}"
    return f"Last run {when}. Modules have the names of that commit.\n"


def _table(mutants: Sequence[Mutant], reasons: dict[Mutant, str]) -> list[str]:
    by_module: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_module[mutant.path.removesuffix(".py").replace("/", ".")].append(mutant)
    names = ("module", "mutants", "killed", "timeout", "survived", "accepted", "not run", "score")
    lines = [f"| {' | '.join(names)} |", "|---|" + "---:|" * (len(names) - 1)]
    lines += [_line(f"`{name}`", found, reasons) for name, found in sorted(by_module.items())]
    return [*lines, _line("**all**", mutants, reasons)]


def _line(title: str, mutants: Sequence[Mutant], reasons: dict[Mutant, str]) -> str:
    count = Counter(
        "accepted" if mutant in reasons
        else "not run" if mutant.status in NOT_RUN
        else mutant.status if mutant.status in NOTICED
        else "survived"
        for mutant in mutants
    )  # fmt: skip
    noticed = sum(count[status] for status in NOTICED)
    run = noticed + count["survived"]
    # What is not run yet is what takes longest, and was noticed least the last time.
    score = f"{100 * noticed / run:.1f} %" if run and not count["not run"] else "–"
    killed = count["killed"] + count["segfault"]
    numbers = (killed, count["timeout"], count["survived"], count["accepted"], count["not run"])
    return f"| {title} | {len(mutants)} | {' | '.join(map(str, numbers))} | {score} |"


def _accepted(reasons: dict[Mutant, str]) -> Iterator[str]:
    yield "\n## Accepted\n"
    for why, count in Counter(reasons.values()).most_common():
        yield f"- {count} × {why}"


def _survivors(mutants: Sequence[Mutant], reasons: dict[Mutant, str]) -> Iterator[str]:
    left = [m for m in mutants if m.status not in (*NOTICED, *NOT_RUN) and m not in reasons]
    yield f"\n## Survivors\n\n{len(left)} that no test notices.\n"
    for where in dict.fromkeys(mutant.where for mutant in left):
        changes = "\n".join(mutant.change for mutant in left if mutant.where == where)
        yield f"`{where}`\n\n```diff\n{changes}\n```\n"
