"""Settings as users type them: what may be set, and text turned into values of the right type."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from artos.errors import Refused
from artos.specs import devices
from artos.specs.actor_count import ActorsSetting, actors_of
from artos.specs.by_learner import named
from artos.specs.counts import count
from artos.specs.devices import DeviceSetting
from artos.specs.replicas import WORDS, ReplicasSetting
from artos.specs.unreadable import UNREADABLE


class Setting(msgspec.Struct, frozen=True):
    """One ``--set NAME=VALUE``: its type and default as a user types them, and what it does."""

    name: str
    kind: str
    default: str
    does: str = ""


def settings_of(builder: Callable[..., Any]) -> tuple[Setting, ...]:
    """The arguments that a function or class takes by name, as settings.

    The text in a setting's annotation says what it does: ``lr: Annotated[float, "step size"] =
    1e-3``.
    """
    plain, full = get_type_hints(builder), get_type_hints(builder, include_extras=True)
    return tuple(
        Setting(name, words(plain.get(name, Any)), shown(given.default), _does(full.get(name)))
        for name, given in inspect.signature(builder).parameters.items()
        if given.kind not in (given.VAR_KEYWORD, given.VAR_POSITIONAL, given.POSITIONAL_ONLY)
    )


def _does(hint: Any) -> str:
    """The text in an annotation, or of a ``msgspec.Meta`` there, and a ``Literal``'s choices."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    texts = (n.description if isinstance(n, msgspec.Meta) else n for n in notes)
    said = [text for text in texts if isinstance(text, str)][:1]
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return ": ".join([*said, *[", ".join(map(shown, choices))] * bool(choices)])


def shown(value: Any) -> str:
    """A value as a user types it; empty for a setting without a default."""
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, list | tuple):
        return ",".join(map(shown, value)) or "none"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def words(kind: Any) -> str:
    """A type in a few words; empty for other types."""
    if kind == ActorsSetting:
        return "number, ..."
    if get_origin(kind) is Literal:
        return "choice"
    if get_origin(kind) in _UNIONS:
        return " or ".join(filter(None, map(words, get_args(kind))))
    if get_origin(kind) in _MANY:
        return f"{words(get_args(kind)[0])},..."
    return _WORDS.get(kind, "")


def convert(name: str, value: Any, kind: Any) -> Any:
    """``value`` as a ``kind``; text is read as users write it.

    Raises:
        Refused: ``value`` is not of that kind; the message says what to write.
    """
    if kind == ActorsSetting:
        if isinstance(value, str) and value.startswith("{"):  # a schedule as JSON
            value = _read(value, Any)
        if isinstance(value, str) and value.strip().isdecimal():
            return int(value)
        return value if type(value) is int else actors_of(value)
    if kind == DeviceSetting:
        return devices.read(value)
    if kind == ReplicasSetting:
        found = named(name, value, WORDS)
        if isinstance(found, Mapping):
            return {each: convert(f"{name}[{each!r}]", n, int) for each, n in found.items()}
        return convert(name, found, int)
    try:
        read = _read(value.strip(), kind) if isinstance(value, str) else value
        return msgspec.convert(read, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused([f"setting {name}={value!r}: {str(error).lower()}"]) from None
    except ValueError as error:
        raise Refused([f"setting {name}={value!r}: {error}"]) from None


# -- reading ---------------------------------------------------------------------------------------


def _read(text: str, kind: Any) -> Any:
    """``text`` as a ``kind``; where no reader knows that kind, as JSON, or else as it is.

    Raises:
        ValueError: ``text`` is not of that kind; the message says what to write.
    """
    if get_origin(kind) in _UNIONS:
        return _read_one(text, get_args(kind))
    if get_origin(kind) is Literal:
        for choice in (choices := get_args(kind)):
            if shown(choice) == text:
                return choice
        raise ValueError(f"write one of {', '.join(map(shown, choices))}")
    if get_origin(kind) in _MANY:
        return _read_many(text, get_args(kind)[0])
    if kind in _READERS:
        return _READERS[kind](text)
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return text


def _read_one(text: str, kinds: Sequence[Any]) -> Any:
    if NoneType in kinds and text.lower() in _NONE:
        return None
    errors = []
    for kind in kinds:
        try:
            if kind is not NoneType:
                return _read(text, kind)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError(f"{', '.join(errors)}{' or none' if NoneType in kinds else ''}")


def _read_many(text: str, kind: Any) -> list[Any]:
    bare = text.strip("()[] ")
    parts = [] if bare.lower() in ("", *_NONE) else bare.rstrip(",").split(",")
    try:
        return [_read(part.strip(), kind) for part in parts]
    except ValueError:
        raise ValueError(f"write {words(kind)}s with commas between them (64,64)") from None


def _read_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError("write a number (0.5, 3e-4)")
    return number


def _read_truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


_UNIONS, _MANY = (Union, UnionType), (tuple, list)
_NONE = ("none", "null")
_WORDS = {int: "int", float: "float", bool: "bool", str: "text", NoneType: "none"}
_READERS: dict[Any, Callable[[str], Any]] = {
    int: count,
    float: _read_number,
    bool: _read_truth,
    str: str,
}
