"""The tour: few files, that stand by themselves, and answers that name what is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

from helpers import PATIENCE, ROOT

PAGE = (ROOT / "docs" / "tour.md").read_text()
FILES = re.findall(r"^\d+\. `([\w/.]+\.py)`", PAGE, re.M)
EXAMPLE = ROOT / "docs" / "examples" / "one_process.py"
MOST_FILES, MOST_LINES = 10, 1_800
MODULES = 54
"""ARTOS modules that the example loads, its ten packages counted.

It should be 25. In the way: the coordinator and its 11 parts, twelve trigger modules (four
of them parts of ``DataKeyTrigger``, two that only a table's checks need), ten of the buffer, the
types of messages with their limits.
"""

ALLOWED = {
    "artos.errors": "what is raised",
    "artos.clock": "time is a dependency",
    "artos.specs.members": "who takes part: a name, and the table of roles",
    "artos.specs.keys": "how data keys and objects are declared",
    "artos.protocol.invocations": "the messages to members and their answers: structs",
    "artos.buffer.doorbell": "a semaphore and two fences",
    "artos.buffer.layout": "where each byte lies: arithmetic",
    "artos.buffer.segment": "a mapped file",
    "artos.buffer.copying": "copies between arrays and tensors",
    "artos.buffer.samplers.patterns": "names of access patterns as values",
    "triggers.window": "what paces the rounds of some of the actors: pure",
    "triggers.supply": "rows of one actor on their way through a trigger: pure",
    "triggers.membership": "which actors a trigger waits for: pure",
    "triggers.whole_episodes": "episodes on their way through a trigger: pure",
    "triggers.checks": "words for what is wrong with an argument",
    "triggers.pacing": "how far actors may be ahead, by a table: pure",
    "triggers.targets": "the two parts of a target's name",
    "artos.system.exit_report": "how a member ended: a value",
    "head.run.coordination.beginning": "how a run begins, also from rows that were there before",
    "head.run.coordination.concern": "what else follows a run: hooks that do nothing by default",
    "head.run.coordination.ending": "when a run samples no more, and when it is over",
    "head.run.coordination.outline": "what a coordinator has to know of a workload: values",
    "head.run.coordination.ports": "what it works with: protocols",
    "head.run.coordination.progress": "sums of the books",
    "head.run.coordination.roster": "which members are there, and what they wait for",
}


def name_of(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def imports(tree: ast.Module) -> Iterator[str]:
    """Modules of ours that are imported when the file is, so not those for type checkers."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [each for each in whole if (ROOT / f"{each.replace('.', '/')}.py").is_file()]
            yield from modules or [node.module]


def tree_of(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def test_the_tour_is_short() -> None:
    lines = {file: len((ROOT / file).read_text().splitlines()) for file in FILES}
    assert 0 < len(lines) <= MOST_FILES
    assert sum(lines.values()) <= MOST_LINES, lines


def test_the_centre_stands_by_itself() -> None:
    """Its files import each other, and small values that stand above with a reason."""
    tour = set(map(name_of, FILES))
    found = {
        module: file
        for file in FILES
        for module in imports(tree_of(file))
        if module.partition(".")[0] in ("artos", "triggers", "head", "workers", "deploy")
        and module not in tour
    }
    assert {module: file for module, file in found.items() if module not in ALLOWED} == {}
    assert set(ALLOWED) == set(found), "what is allowed and not used"


def names(file: str) -> Iterator[str]:
    """Classes, their methods and fields, and functions of a file."""
    for node in tree_of(file).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.FunctionDef):
                yield f"{node.name}.{each.name}"


def test_answers_name_what_is_there() -> None:
    known = {name for file in (*FILES, "artos/protocol/invocations.py") for name in names(file)}
    answers = re.findall(r"^\*\*(\d+)\..*?\*\*\n(.*?)(?:\n\n|\Z)", PAGE, re.M | re.S)
    assert [int(number) for number, _ in answers] == list(range(1, 21))
    fields = {"Invoke.stop", "Done.lost_lease"}
    for number, answer in answers:
        named = set(re.findall(r"`([A-Z]\w+\.\w+)`", answer))
        assert named, f"answer {number} names no function"
        assert named - fields <= known, f"answer {number}: {named - fields - known}"


def test_one_process_is_short_and_learns() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 80
    ended = subprocess.run(
        [sys.executable, EXAMPLE], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    rewards = [float(word) for word in re.findall(r"reward (\d\.\d+)", ended.stdout)]
    assert rewards[0] < 0.5 < 0.9 < rewards[-1], ended.stdout


def test_one_process_loads_little() -> None:
    code = f"""if True:
        import runpy, sys
        runpy.run_path({str(EXAMPLE)!r})
        ours = ("artos", "triggers", "head", "workers", "deploy")
        print(*sorted(m for m in sys.modules if m.partition(".")[0] in ours))"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    loaded = ended.stdout.splitlines()[-1].split()
    assert len(loaded) <= MODULES, loaded
