"""An environment's address: its name, and the arguments it is made with, as one text.

``CartPole-v1(sutton_barto_reward=True)`` is what a run records; a process that has the address
needs nothing else to make the environment. Arguments are Python literals.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from artos.errors import Refused


def address(env: str, arguments: Mapping[str, Any]) -> str:
    """``env`` with these arguments; they replace those that it has under the same names.

    Raises:
        Refused: a name is not a Python name, or a value is not a literal.
    """
    name, before = parted(env)
    given = before | dict(arguments)
    if not given:
        return name
    written = f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
    if parted(written) != (name, given):
        raise Refused(
            [f"environment {written}: arguments are numbers, texts, lists and tables by name"]
        )
    return written


def parted(env: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of an address.

    Raises:
        Refused: what stands in parentheses is not a list of ``name=literal``; or it is no text.
    """
    named(env)
    if not env.endswith(")") or "(" not in env:
        return env, {}
    name, _, inside = env.partition("(")
    try:
        call: Any = ast.parse(f"f({inside}", mode="eval").body
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, AttributeError, RecursionError, MemoryError) as error:
        raise Refused([_UNREADABLE.format(env)]) from error
    if call.args or None in {each.arg for each in call.keywords}:
        raise Refused([_UNREADABLE.format(env)])
    return name, given


def named(env: object) -> None:
    """Whether an environment is given by an address, by which other processes make it, too.

    Raises:
        Refused: it is something else, such as a function that makes one.
    """
    if not isinstance(env, str):
        called = getattr(env, "__name__", "")
        name = called if called.isidentifier() else "make"
        raise Refused(
            [f"environment {env!r}: give a name by which the processes of a run find it; what a "
             f"notebook has made goes to a file (%%writefile my_env.py), and is 'my_env:{name}'"]
        )  # fmt: skip


_UNREADABLE = "environment {}: write its arguments as --env-arg KEY=VALUE, or as (key=value)"
