"""Which algorithm chooses which actions."""

from __future__ import annotations

from artos.envs import action_words
from artos.envs.spec import ActionKind, ActionSpec, EnvSpec
from artos.errors import Refused

_ALL: tuple[ActionKind, ...] = ("discrete", "multidiscrete", "box")
CHOOSES: dict[str, tuple[ActionKind, ...]] = {
    "dqn": ("discrete",),
    "rainbow": ("discrete",),
    "apex": ("discrete",),
    "r2d2": ("discrete",),
    "sac": ("discrete", "box"),
    "td3": ("box",),
    "ddpg": ("box",),
    "d4pg": ("box",),
    "crossq": ("box",),
    "ppo": _ALL,
    "a2c": _ALL,
    "impala": _ALL,
    "trpo": _ALL,
    "appo": _ALL,
    "rnd": _ALL,
    "es": _ALL,
    "grpo": (),
}
"""Kinds of actions by algorithm; those that draw from replay need bounds if actions are numbers.

``grpo`` chooses tokens of texts, and nothing of any other environment.
"""

_WORDS = {
    "discrete": "one of several actions",
    "multidiscrete": "several choices at once",
    "box": "numbers within bounds",
}


def require_actions(spec: EnvSpec, chooser: str, *kinds: ActionKind) -> None:
    """Refuse an environment whose actions an algorithm or a policy cannot choose.

    Raises:
        Refused: actions are of another kind, or are continuous without bounds.
    """
    actions = spec.actions
    free = None in (*actions.low, *actions.high)
    if actions.kind in kinds and not free:
        return
    able = " or ".join(_WORDS[kind] for kind in kinds)
    instead = [instead_of(actions), *_wrappers(actions, kinds)]
    raise Refused(
        [
            f"{chooser} chooses {able}, but {spec.name} takes {_described(actions)}: run "
            + ", or ".join(instead)
        ]
    )


def instead_of(actions: ActionSpec) -> str:
    """The algorithms that choose such actions, in words."""
    free = None in (*actions.low, *actions.high)
    *most, last = (
        name
        for name, chosen in CHOOSES.items()
        if actions.kind in chosen and (chosen == _ALL or not free)
    )
    return f"{', '.join(most)} or {last} on it"


def _described(actions: ActionSpec) -> str:
    match actions.kind:
        case "discrete":
            return f"one of {actions.sizes[0]} actions"
        case "multidiscrete":
            return f"{len(actions.sizes)} choices at once"
    without = " without bounds" * (None in (*actions.low, *actions.high))
    return f"numbers of shape {actions.shape}{without}"


def _wrappers(actions: ActionSpec, kinds: tuple[ActionKind, ...]) -> list[str]:
    """Hints at wrappers that make a kind of action of it that can be chosen."""
    if actions.kind in kinds:
        return [action_words.bounds(actions)]
    if "discrete" not in kinds:
        return []
    of = {"multidiscrete": action_words.one_choice, "box": action_words.few_values}[actions.kind]
    return [hint] if (hint := of(actions)) else []
