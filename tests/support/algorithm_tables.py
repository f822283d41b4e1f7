"""The built-in algorithms as the rows of a page: their tables, and how long their files are."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from artos.specs.workload import Workload
from triggers.algorithms import BUILT_IN

_KEYS = ("keys", "object_key")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(path: Path) -> int:
    """Lines of a file that have code: no comments, docstrings and blank lines."""
    text = path.read_text()
    docs = set[int]()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", [])
        for each in body if isinstance(body, list) else []:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                docs |= set(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    found = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            found |= set(range(token.start[0], token.end[0] + 1))
    return len(found - docs)


def written(trigger: Any) -> str:
    """A trigger as one would write it, without what is as usual; its keys are ``KEYS``."""
    given = []
    for field in fields(trigger):
        value: Any = getattr(trigger, field.name)
        usual = field.default_factory() if field.default_factory is not MISSING else field.default
        if not field.init or value == usual:
            continue
        shown = _pattern(value)
        if field.name in _KEYS:
            shown = "KEYS" if isinstance(value, tuple) else f'"{value}"'
        given.append(shown if field.name in _KEYS else f"{field.name}={shown}")
    return f"{type(trigger).__name__}({', '.join(given)})"


def _pattern(value: Any) -> str:
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    defaults = {f.name: f.default for f in msgspec.structs.fields(type(value))}
    parts = {name: getattr(value, name) for name in defaults}
    given = [f"{name}={each!r}" for name, each in parts.items() if each != defaults[name]]
    return f"{type(value).__name__}({', '.join(given)})"


def rows() -> Iterator[str]:
    """A row of the page for each line of each algorithm's table."""
    for name in sorted(BUILT_IN):
        module, _, function = BUILT_IN[name].partition(":")
        found = import_module(module)
        workload: Workload = getattr(found, function)()
        many = str(code_lines(Path(str(found.__file__))))
        for number, (target, trigger) in enumerate(workload.triggers.items()):
            first = (name, many) if number == 0 else ("", "")
            yield f"| {first[0]} | `{target}` | `{written(trigger)}` | {first[1]} |"
