"""An algorithm as ARTOS runs it: the workload that a user registers (paper Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from artos.specs.actor_count import Actors, ActorsSetting, actors_of
from artos.specs.by_learner import by_learner
from artos.specs.contracts import Actor, Learner
from artos.specs.data import Rows
from artos.specs.devices import CPU, DeviceSetting
from artos.specs.elastic import Elastic
from artos.specs.keys import CheckpointSetting, DataKey, ObjectKey, OnFull
from artos.specs.members import LEARNER
from artos.specs.replicas import ReplicasSetting
from artos.specs.servers import Server
from artos.specs.settings import convert


@dataclass(frozen=True, kw_only=True)
class Workload:
    """An algorithm as ARTOS runs it: a learner, an actor and a table of triggers (paper Table 3).

    ``triggers`` maps a target, ``"learner.METHOD"`` or ``"actors.METHOD"``, to the trigger that
    fires it. ``steps`` is the length of one round of sampling in steps of each environment.
    ``capacity`` counts rows kept per actor; 0 means just enough for the triggers. ``data_keys``
    left empty means all that the actor can write. A run ends after ``total_steps`` environment
    steps or ``total_updates`` updates, whichever comes first. ``settings`` are the values that the
    builder chose itself for settings it was not given; they go into the run's configuration.
    ``doubts`` are told as notes before it begins.

    ``learners`` are further learners by name, ``{"world_model": WorldModel()}``, with targets
    ``"world_model.METHOD"`` and objects ``"world_model/OBJECT"``. Each has a process, a model
    block and versions of its own. Actors act with the weights of ``learner``, or of the first of
    ``learners`` where there is no ``learner``: its updates are those that ``total_updates`` counts,
    and its versions those that are evaluated.

    ``data`` are data sets by name, from which a ``ReplayTrigger(source=NAME)`` draws. With them
    there may be no actors at all (``actors=0``): then there are no environment steps, so
    ``total_steps`` limits nothing, and the run ends after ``total_updates``.

    ``servers`` are roles that answer what actors ask them, by name, in addition to those that the
    actor brings along: a judge, a reward model, central inference. ``"NAME.answer"`` in
    ``triggers`` says when they do, ``RequestTrigger(batch, wait)`` of the server if it is left out.

    ``object_keys`` names further objects that the learner must publish, in addition to the weights
    and to the objects that triggers and scaling policies name.

    With ``evaluate_every=n``, every n-th version of the weights, the first and the last plays
    ``evaluation_episodes`` whole episodes greedily, beside the training.

    ``device`` is where all learners compute, or by name where each does: ``{"policy": "cuda:0",
    "world_model": "pool"}``, and whoever is not named on the CPU. In the same way ``replicas`` says
    how many processes make each update of all learners, or by name of each: ``{"world_model": 2}``.

    ``actors`` is a number, a schedule by update (``{0: 4, 5: 8}``), a policy of
    ``artos.specs.actor_count``, any of these as text (``"noise_scale:2..16"``), or a
    ``ScalingPolicy`` of your own. If the number changes, leave out ``n`` in a ``DataKeyTrigger``
    that is to wait for all actors.
    """

    name: str
    actor: Actor
    learner: Learner | None = None
    learners: Mapping[str, Learner] = field(default_factory=dict)
    triggers: Mapping[str, Any]
    data_keys: Sequence[DataKey] = ()
    object_keys: Sequence[ObjectKey] = ()
    data: Mapping[str, Rows] = field(default_factory=dict)
    servers: Mapping[str, Server] = field(default_factory=dict)
    actors: Annotated[ActorsSetting, "how many processes sample, and when that changes"] = 2
    steps: Annotated[int, "steps of each environment in a round"] = 128
    capacity: Annotated[int, "rows kept per actor; 0: just enough for the triggers"] = 0
    on_full: Annotated[OnFull, "what happens when a block is full"] = "wait"
    total_steps: Annotated[int, "environment steps in all; 0: no limit"] = 500_000
    total_updates: Annotated[int, "updates in all; 0: no limit"] = 0
    evaluate_every: Annotated[int, "updates from one greedy evaluation to the next; 0: none"] = 0
    evaluation_episodes: Annotated[int, "whole episodes of each evaluation"] = 10
    checkpoint: Annotated[CheckpointSetting, "what is saved: the model, or all of the run"] = (
        "model"
    )
    device: Annotated[
        DeviceSetting, "where learners compute: auto, cpu, cuda:N or pool; each: NAME=DEVICE,..."
    ] = "cpu"
    weight: Annotated[float, "its share where runs take turns"] = 1.0
    priority: Annotated[int, "whose turn comes first, whatever the weights"] = 0
    replicas: Annotated[
        ReplicasSetting, "processes that make each update together; of each learner: NAME=N,..."
    ] = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    doubts: Sequence[str] = ()
    elastic: Elastic = field(default_factory=Elastic)

    @property
    def every_learner(self) -> dict[str, Learner]:
        """All learners by name, first the one whose weights actors act with."""
        first = {} if self.learner is None else {LEARNER: self.learner}
        return {**first, **self.learners}

    @property
    def devices(self) -> dict[str, str]:
        """Where each learner is to compute."""
        return by_learner(self.device, self.every_learner, CPU)

    @property
    def replica_counts(self) -> dict[str, int]:
        """How many processes make the updates of each learner.

        Raises:
            Refused: ``replicas`` is invalid.
        """
        found = convert("learners", self.replicas, ReplicasSetting)
        return by_learner(found, self.every_learner, 1)

    @property
    def answering(self) -> dict[str, Server]:
        """All servers by name: those of the actor, and those given here."""
        return {**self.actor.servers, **self.servers}

    @property
    def scaling(self) -> Actors:
        """What ``actors`` means.

        Raises:
            Refused: ``actors`` is invalid; lists all faults.
        """
        return actors_of(self.actors)
