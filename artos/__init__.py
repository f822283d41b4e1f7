"""ARTOS: buffer-centric, trigger-driven orchestration of distributed reinforcement learning.

The public names for a user's own algorithm. Each is imported when it is first used, so
``import artos`` costs nothing, and only names that need PyTorch load it. Algorithms stand one floor
up, with their tables of triggers; nothing below this file knows them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artos.actors.agents import AgentsActor
    from artos.actors.asking import AskingActor
    from artos.actors.branches import BranchingActor
    from artos.actors.casting import Past
    from artos.actors.context import ActorContext
    from artos.actors.rollout import RolloutActor
    from artos.buffer.actor_block import ActorBlock
    from artos.buffer.model_block import ModelBlock
    from artos.buffer.samplers.batch import Batch
    from artos.buffer.samplers.drawn_batch import DrawnBatch
    from artos.buffer.samplers.episode_batch import EpisodeBatch
    from artos.buffer.samplers.n_step import NStep
    from artos.buffer.samplers.patterns import (
        FIFO,
        Episodes,
        FullBatch,
        Prioritised,
        Sequences,
        Uniform,
    )
    from artos.buffer.samplers.prioritised import PrioritisedSampler
    from artos.buffer.samplers.sequences import SequenceSampler
    from artos.buffer.samplers.uniform import UniformSampler
    from artos.errors import ArtosError, Refused
    from artos.learners.advantage_cache import AdvantageCache
    from artos.learners.context import LearnerContext
    from artos.learners.network import Network
    from artos.learners.optimisers import Adam, ByPart, RMSprop, TorchOptimiser
    from artos.learners.torch_learner import TorchLearner
    from artos.losses.gae import advantages, discounted
    from artos.losses.rounds import n_step_returns
    from artos.losses.vtrace import vtrace
    from artos.policies.acting import ActInfo
    from artos.policies.build import Policy
    from artos.policies.inference import Inference
    from artos.policies.squashed import SquashedGaussian
    from artos.policies.values import QNetwork
    from artos.protocol.invocations import Claim, Invoke
    from artos.protocol.views import Status
    from artos.scaling.policy import Observation, ScalingPolicy
    from artos.specs.configuration import Changeable
    from artos.specs.contracts import Actor, Learner, Wrote
    from artos.specs.data import Rows
    from artos.specs.keys import DataKey, ObjectKey
    from artos.specs.servers import Server, ServerContext
    from artos.specs.workload import Workload
    from artos.trained.evaluation import Evaluation
    from artos.trained.trained import Trained, load
    from deploy.api.cluster import Cluster
    from deploy.api.running import Result, RunFailed, run
    from deploy.api.sweeping import Sweep, sweep
    from triggers.algorithms.a2c import A2C
    from triggers.algorithms.apex import ApeX
    from triggers.algorithms.appo import APPO
    from triggers.algorithms.crossq import CrossQ
    from triggers.algorithms.d4pg import D4PG
    from triggers.algorithms.ddpg import DDPG
    from triggers.algorithms.dqn import DQN
    from triggers.algorithms.es import ES
    from triggers.algorithms.grpo import GRPO
    from triggers.algorithms.impala import IMPALA
    from triggers.algorithms.pipelined_ppo import PipelinedPPO
    from triggers.algorithms.ppo import PPO
    from triggers.algorithms.r2d2 import R2D2
    from triggers.algorithms.rainbow import Rainbow
    from triggers.algorithms.rnd import RND
    from triggers.algorithms.sac import SAC
    from triggers.algorithms.td3 import TD3
    from triggers.algorithms.trpo import TRPO

__all__ = [
    "A2C",
    "APPO",
    "D4PG",
    "DDPG",
    "DQN",
    "ES",
    "FIFO",
    "GRPO",
    "IMPALA",
    "PPO",
    "R2D2",
    "RND",
    "SAC",
    "TD3",
    "TRPO",
    "ActInfo",
    "Actor",
    "ActorBlock",
    "ActorContext",
    "Adam",
    "AdvantageCache",
    "AgentsActor",
    "ApeX",
    "ArtosError",
    "AskingActor",
    "Batch",
    "BranchingActor",
    "ByPart",
    "Changeable",
    "Claim",
    "Cluster",
    "CrossQ",
    "DataKey",
    "DrawnBatch",
    "EpisodeBatch",
    "Episodes",
    "Evaluation",
    "FullBatch",
    "Inference",
    "Invoke",
    "Learner",
    "LearnerContext",
    "ModelBlock",
    "NStep",
    "Network",
    "ObjectKey",
    "Observation",
    "Past",
    "PipelinedPPO",
    "Policy",
    "Prioritised",
    "PrioritisedSampler",
    "QNetwork",
    "RMSprop",
    "Rainbow",
    "Refused",
    "Result",
    "RolloutActor",
    "Rows",
    "RunFailed",
    "ScalingPolicy",
    "SequenceSampler",
    "Sequences",
    "Server",
    "ServerContext",
    "SquashedGaussian",
    "Status",
    "Sweep",
    "TorchLearner",
    "TorchOptimiser",
    "Trained",
    "Uniform",
    "UniformSampler",
    "Workload",
    "Wrote",
    "advantages",
    "discounted",
    "load",
    "n_step_returns",
    "run",
    "sweep",
    "vtrace",
]

_MODULES = {
    "A2C": "triggers.algorithms.a2c",
    "CrossQ": "triggers.algorithms.crossq",
    "D4PG": "triggers.algorithms.d4pg",
    "DDPG": "triggers.algorithms.ddpg",
    "APPO": "triggers.algorithms.appo",
    "ApeX": "triggers.algorithms.apex",
    "R2D2": "triggers.algorithms.r2d2",
    "DQN": "triggers.algorithms.dqn",
    "ES": "triggers.algorithms.es",
    "GRPO": "triggers.algorithms.grpo",
    "IMPALA": "triggers.algorithms.impala",
    "PipelinedPPO": "triggers.algorithms.pipelined_ppo",
    "PPO": "triggers.algorithms.ppo",
    "Rainbow": "triggers.algorithms.rainbow",
    "RND": "triggers.algorithms.rnd",
    "SAC": "triggers.algorithms.sac",
    "TD3": "triggers.algorithms.td3",
    "TRPO": "triggers.algorithms.trpo",
    "Actor": "artos.specs.contracts",
    "AgentsActor": "artos.actors.agents",
    "AskingActor": "artos.actors.asking",
    "Inference": "artos.policies.inference",
    "Server": "artos.specs.servers",
    "ServerContext": "artos.specs.servers",
    "Learner": "artos.specs.contracts",
    "Rows": "artos.specs.data",
    "Wrote": "artos.specs.contracts",
    "Changeable": "artos.specs.configuration",
    "ActorBlock": "artos.buffer.actor_block",
    "ActorContext": "artos.actors.context",
    "ArtosError": "artos.errors",
    "Refused": "artos.errors",
    "Batch": "artos.buffer.samplers.batch",
    "Claim": "artos.protocol.invocations",
    "DataKey": "artos.specs.keys",
    "Invoke": "artos.protocol.invocations",
    "ModelBlock": "artos.buffer.model_block",
    "NStep": "artos.buffer.samplers.n_step",
    "ObjectKey": "artos.specs.keys",
    "ActInfo": "artos.policies.acting",
    "Adam": "artos.learners.optimisers",
    "ByPart": "artos.learners.optimisers",
    "LearnerContext": "artos.learners.context",
    "Network": "artos.learners.network",
    "TorchOptimiser": "artos.learners.optimisers",
    "Past": "artos.actors.casting",
    "Policy": "artos.policies.build",
    "QNetwork": "artos.policies.values",
    "SquashedGaussian": "artos.policies.squashed",
    "AdvantageCache": "artos.learners.advantage_cache",
    "RMSprop": "artos.learners.optimisers",
    "PrioritisedSampler": "artos.buffer.samplers.prioritised",
    "BranchingActor": "artos.actors.branches",
    "RolloutActor": "artos.actors.rollout",
    "ScalingPolicy": "artos.scaling.policy",
    "Observation": "artos.scaling.policy",
    "SequenceSampler": "artos.buffer.samplers.sequences",
    "TorchLearner": "artos.learners.torch_learner",
    "UniformSampler": "artos.buffer.samplers.uniform",
    "DrawnBatch": "artos.buffer.samplers.drawn_batch",
    "EpisodeBatch": "artos.buffer.samplers.episode_batch",
    "Episodes": "artos.buffer.samplers.patterns",
    "FIFO": "artos.buffer.samplers.patterns",
    "FullBatch": "artos.buffer.samplers.patterns",
    "Prioritised": "artos.buffer.samplers.patterns",
    "Sequences": "artos.buffer.samplers.patterns",
    "Uniform": "artos.buffer.samplers.patterns",
    "Workload": "artos.specs.workload",
    "Evaluation": "artos.trained.evaluation",
    "Trained": "artos.trained.trained",
    "advantages": "artos.losses.gae",
    "discounted": "artos.losses.gae",
    "load": "artos.trained.trained",
    "n_step_returns": "artos.losses.rounds",
    "vtrace": "artos.losses.vtrace",
    "Cluster": "deploy.api.cluster",
    "Result": "deploy.api.running",
    "RunFailed": "deploy.api.running",
    "Status": "artos.protocol.views",
    "Sweep": "deploy.api.sweeping",
    "run": "deploy.api.running",
    "sweep": "deploy.api.sweeping",
}


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module it lives in, once."""
        if name not in _MODULES:
            raise AttributeError(f"module 'artos' has no attribute {name!r}")
        found = getattr(import_module(_MODULES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
