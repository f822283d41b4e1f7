"""The shape of the product's code: what makes a reader jump is counted, and has a limit."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from helpers import ROOT

PRODUCT = ("artos", "triggers", "head", "workers", "deploy")
FILES = sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))
SOURCES = {path: path.read_text() for path in FILES}
TREES = {path: ast.parse(source) for path, source in SOURCES.items()}
LINES = sum(1 for source in SOURCES.values() for line in source.splitlines() if line.strip())

CALLED_ONCE = 9.0
"""Private functions that are called once, per 1,000 lines that are not blank."""
FUNCTIONS = 91.0
"""Functions per 1,000 such lines; the goal is 75."""
MOST_METHODS = 25
TRIGGER_CLASSES = 5
"""Questions of which class of triggers one is, outside of the triggers' own folder."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def called_once(path: Path) -> list[str]:
    """Private functions that the file names twice: where they are made and where they are used."""
    words = Counter(re.findall(r"\b_[a-z]\w*\b", SOURCES[path]))
    names = [node.name for node in functions(TREES[path])]
    return [name for name in names if re.match("_[^_]", name) and words[name] == 2]


def test_private_functions_are_rarely_called_once() -> None:
    """Such a function has a name that says a decision, or else it stands where it is read."""
    once = {str(path.relative_to(ROOT)): called_once(path) for path in FILES}
    count = sum(map(len, once.values()))
    assert count / LINES * 1000 <= CALLED_ONCE, sorted(once.items(), key=lambda each: len(each[1]))


def test_what_is_private_is_called() -> None:
    """Also what overrides a method: one that its base has no more is defined and never called."""
    words = Counter(word for source in SOURCES.values() for word in re.findall(r"\b\w+", source))
    defined = Counter(node.name for tree in TREES.values() for node in functions(tree))
    private = {
        name: number for name, number in defined.items() if re.fullmatch("_[^_].*[^_]", name)
    }
    assert {name for name, number in private.items() if words[name] <= number} == set()


def test_functions_are_as_long_as_their_thought() -> None:
    assert sum(len(functions(tree)) for tree in TREES.values()) / LINES * 1000 <= FUNCTIONS


def test_no_class_is_several_nouns() -> None:
    methods = {
        f"{path.relative_to(ROOT)}:{node.name}": sum(isinstance(e, Function) for e in node.body)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert {name: number for name, number in methods.items() if number > MOST_METHODS} == {}


def test_a_trigger_is_asked_and_not_looked_at() -> None:
    asked = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] != "triggers"
        for number, line in enumerate(SOURCES[path].splitlines(), 1)
        if re.search(r"isinstance\([^)]*\w+Trigger\b|case .*\w+Trigger\(", line)
    ]
    assert len(asked) <= TRIGGER_CLASSES, "\n".join(asked)


def test_an_algorithm_is_a_short_file() -> None:
    """With its settings and its table; what several share is not its own."""
    files = [path for path in FILES if path.parent.relative_to(ROOT) == Path("triggers/algorithms")]
    shared = {"pipelined_ppo.py", "pipelines.py", "replaying.py", "defaults.py", "separate.py"}
    for path in files:
        text = path.read_text()
        assert len(text.splitlines()) <= 200, path.name
        for node in ast.parse(text).body if path.name not in shared else ():
            if isinstance(node, ast.ClassDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 120, f"{path.name}: {node.name}"
    assert len(files) > 20
