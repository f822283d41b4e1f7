"""Central inference (SEED RL, Espeholt et al. 2020): a server has the network for all actors."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from artos import PPO, DataKey, RolloutActor, Server, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, RequestTrigger


class Network(nn.Module):
    """Policy and values; an actor that has a ``desk`` asks there instead."""

    desk = None

    def __init__(self, spec) -> None:
        super().__init__()
        self.by = []  # the versions that answered
        width, choices = spec.parts[0].shape[0], spec.actions.sizes[0]
        self.layers = nn.Sequential(nn.Linear(width, 128), nn.Tanh(), nn.Linear(128, choices + 1))

    def forward(self, obs):
        """How likely actions are, and values (B,)."""
        if self.desk is not None:
            said = self.desk(seen=obs["observations"].numpy())
            logits, values = (torch.from_numpy(said[name]) for name in ("logits", "values"))
        else:
            found = self.layers(obs["observations"])
            logits, values = found[:, 1:], found[:, 0]
        return Categorical(logits=logits), values

    def act(self, obs, info):
        """Draw by chance of the actor's own, whoever says what is likely."""
        chances, values = self(obs)
        if self.desk is not None:
            self.by.append(self.desk.version)
        actions = chances.mode if info.greedy else chances.sample()
        return {"actions": actions, "log_probs": chances.log_prob(actions), "values": values}

    def value(self, obs):
        """Of what comes after a round, (B,)."""
        return self(obs)[1]

    def evaluate(self, obs, actions):
        """Log-probabilities, entropies and values, (B,) each, for PPO."""
        chances, values = self(obs)
        return chances.log_prob(actions), chances.entropy(), values


class Central(Server):
    """Says what the newest weights say of what environments show."""

    reads_weights = True

    def asks(self, actor):
        """Observations."""
        return (DataKey("seen", actor.spec.parts[0].shape),)

    def answers(self, actor):
        """Whatever is drawn from it is up to who asked."""
        return DataKey("logits", (actor.spec.actions.sizes[0],)), DataKey("values")

    def setup(self, context):
        """Have a network for weights to go to, once in the process of the server."""
        self.network = context.actor.build_module(context.seed)

    def bind(self, params, version):
        """Answer by these weights from now on."""
        nn.utils.vector_to_parameters(torch.tensor(params), self.network.parameters())

    @torch.no_grad()
    def answer(self, asked):
        """Answer B rows, whichever actors they are from."""
        chances, values = self.network({"observations": torch.from_numpy(asked["seen"])})
        return {"logits": chances.logits.numpy(), "values": values.numpy()}


class Asking(RolloutActor):
    """Steps environments; what they show is sent to the server."""

    desk = None  # as where a policy is evaluated

    def setup(self, context):
        """Find the server's desk, and the block that rows are written to."""
        self.block, (self.desk,) = context.block, context.desks.get("inference", [None])
        super().setup(context)

    def make_policy(self, module, seed):
        """A policy that asks, if there is somebody to ask."""
        self.network, module.desk = module, self.desk
        return super().make_policy(module, seed)

    def sample(self, start, rows, call):
        """Say which version answered each row."""
        self.network.by.clear()
        seconds = super().sample(start, rows, call)
        if self.desk is not None:
            at = np.arange(start, start + rows) % self.block.spec.capacity
            self.block.arrays["policy_version"][at] = self.network.by
        return seconds


def workload(env: str = "CartPole-v1", actors: int = 2, total_steps: int = 100_000) -> Workload:
    """What ``artos run my_inference.py:workload`` runs; every argument is a ``--set``."""
    actor = Asking(env, Network, envs=8)
    return Workload(
        name="inference",
        actor=actor,
        learner=PPO(),
        servers={"inference": Central()},
        triggers={
            "inference.answer": RequestTrigger(n=actors, wait=0.002),
            "learner.update": DataKeyTrigger(
                [key.name for key in actor.data_keys()], size=128, max_lag=0
            ),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=128, total_steps=total_steps,
    )  # fmt: skip
