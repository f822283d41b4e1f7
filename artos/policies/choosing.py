"""Which algorithm chooses which actions."""

from __future__ import annotations

from artos.envs import action_words
from artos.envs.spec import ActionKind, ActionSpec, EnvSpec
from artos.errors import Refused

_ALL: tuple[ActionKind, ...] = ("discrete", "multidiscrete", "box")
CHOOSES: dict[str, tuple[ActionKind, ...]] = {
    "dqn": ("discrete",),
    "sac": ("discrete", "box"),
    "td3": ("box",),
    "ppo": _ALL,
    "a2c": _ALL,
    "impala": _ALL,
}
"""Kinds of actions by algorithm; dqn, sac and td3 need bounds of those that are numbers."""

_WORDS = {
    "discrete": "one of several actions",
    "multidiscrete": "several choices at once",
    "box": "numbers within bounds",
}


def require_actions(spec: EnvSpec, chooser: str, *kinds: ActionKind) -> None:
    """Refuse an environment whose actions an algorithm or a policy cannot choose.

    Raises:
        Refused: actions of another kind, or continuous ones without bounds.
    """
    actions = spec.actions
    free = None in (*actions.low, *actions.high)
    if actions.kind in kinds and not free:
        return
    able = " or ".join(_WORDS[kind] for kind in kinds)
    hints = _hints(actions, kinds)
    raise Refused(
        [
            f"{chooser} chooses {able}, but {spec.name} takes {_taken(actions)}: run "
            + ", or ".join([f"{_listed(_choosers(actions.kind, free=free))} on it", *hints])
        ]
    )


def _taken(actions: ActionSpec) -> str:
    match actions.kind:
        case "discrete":
            return f"one of {actions.sizes[0]} actions"
        case "multidiscrete":
            return f"{len(actions.sizes)} choices at once"
    without = " without bounds" * (None in (*actions.low, *actions.high))
    return f"numbers of shape {actions.shape}{without}"


def _choosers(kind: ActionKind, *, free: bool) -> list[str]:
    return [
        name for name, kinds in CHOOSES.items() if kind in kinds and (kinds == _ALL or not free)
    ]


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _hints(actions: ActionSpec, kinds: tuple[ActionKind, ...]) -> list[str]:
    """Wrappers that make a kind of action of it that can be chosen."""
    if actions.kind in kinds:
        return [action_words.bounds(actions)]
    if "discrete" not in kinds:
        return []
    of = {"multidiscrete": action_words.one_choice, "box": action_words.few_values}[actions.kind]
    return [hint] if (hint := of(actions)) else []
