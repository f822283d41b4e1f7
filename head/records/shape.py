"""What a run's ``config.json`` keeps of its plan, so that its course can be simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from artos.runs.plan import Plan
from artos.specs.actor_count import Schedule
from artos.specs.fields import MOST, Count, Few
from artos.specs.keys import EVALUATION
from artos.specs.reference import Reference
from triggers.targets import parsed


class Shape(msgspec.Struct, frozen=True):
    """The part of a plan that a run's course depends on; the names mean the same as in ``Plan``."""

    actors: Few
    envs: Annotated[int, Meta(ge=1, le=MOST)]
    steps: Annotated[int, Meta(ge=1, le=MOST)]
    triggers: dict[str, dict[str, Any]]
    non_publishing: tuple[str, ...] = ()
    total_steps: Count = 0
    total_updates: Count = 0
    learner: str = ""
    """The first one; empty in records of an earlier version of ARTOS."""

    @classmethod
    def of(cls, plan: Plan) -> Shape:
        """The shape of a plan."""
        return cls(**{name: getattr(plan, name) for name in cls.__struct_fields__})

    def plan(self, name: str, schedule: Mapping[int, int] | None = None) -> Plan:
        """A plan of this shape, without evaluations; ``schedule``: numbers of actors by update."""
        return Plan(
            reference=Reference(""), name=name, env="", seed=0, capacity=self.steps,
            on_full="wait", data_keys=(), objects=(), layout=(), methods={},
            actors=self.actors, envs=self.envs, steps=self.steps,
            triggers={
                t: each
                for t, each in self.triggers.items()
                if not (t == EVALUATION or parsed(t).answers)
            },
            non_publishing=self.non_publishing,
            total_steps=self.total_steps, total_updates=self.total_updates,
            scaling=Schedule(dict(schedule)) if schedule else None,
        )  # fmt: skip
