"""Expert iteration (AlphaZero): a tree search in mid-episode, and a network that learns from it."""

import numpy as np
import torch
from my_branches import POLICY, ROW
from my_inference import Network

from artos import PPO, DataKey, RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, RoundTrigger

KEYS, TRIES, DISCOUNT, CURIOUS = 4, 16, 0.99, 1.5


class Told(Network):
    """Does what a search says; where there is none, as in evaluations, it plays by itself."""

    outputs, told = (DataKey("visits", (KEYS,)), "worth"), {}

    def act(self, obs, info):
        """Also how often each action was tried, and what all tries together were worth."""
        found = super().act(obs, info)
        return {**found, "visits": self(obs)[0].probs, "worth": found["values"], **self.told}


class Node:
    """A state of an episode, and what came of each action there."""

    def __init__(self, state, odds) -> None:
        self.state, self.odds, self.after = state, odds, {}
        self.visits, self.worth, self.paid = np.zeros((3, KEYS), np.float32)

    def path(self):
        """Nodes and actions, down to one of which is not known where it leads (PUCT)."""
        bonus = self.odds * (1 + self.visits.sum()) ** 0.5 / (1 + self.visits)
        best = int((self.worth / self.visits.clip(1) + CURIOUS * bonus).argmax())
        return [(self, best), *(self.after[best].path() if best in self.after else ())]


class Searching(RolloutActor):
    """A round is a search from where each environment is, one try a row, and then a move."""

    def setup(self, context):
        """Keep the block, which has what was paid, and the seed."""
        self.block, self.seed = context.block, context.seed
        super().setup(context)

    def make_policy(self, module, seed):
        """Keep the network, which has the weights that are bound."""
        self.network = module
        return super().make_policy(module, seed)

    def here(self):
        """A node for the state of each environment, and its value."""
        seen = np.stack([self.present(env)[0]["observations"] for env in range(self.envs)])
        with torch.no_grad():
            chances, values = self.network({"observations": torch.from_numpy(seen)})
        nodes = [Node(self.state_of(env), odds) for env, odds in enumerate(chances.probs.numpy())]
        return zip(nodes, values.tolist(), strict=True)

    def sample(self, start, rows, call):
        """Grow a tree in each environment, then do what was tried most."""
        roots, chance = [root for root, _ in self.here()], np.random.default_rng((self.seed, start))
        for root in roots:
            root.odds = 0.75 * root.odds + 0.25 * chance.dirichlet([1] * KEYS)
        for row in range(start, start + rows):
            paths = [root.path() for root in roots]
            if row == start + rows - 1:
                paths = [[(root, int(root.visits.argmax()))] for root in roots]
            for env, path in enumerate(paths):
                self.put_state(env, path[-1][0].state)
            self.network.told = {
                "actions": torch.tensor([path[-1][1] for path in paths]),
                "visits": torch.tensor(np.stack([root.visits for root in roots])),
                "worth": torch.tensor([root.worth.sum() for root in roots]),
            }
            self.episodes()  # those that ended in the search were not played
            times = super().sample(row, 1, call)
            self.network.told = {}
            self.note(paths, *(self.block.views(key, row, row + 1)[0][0] for key in ROW[2:4]))
        return times

    def note(self, paths, paid, over):
        """Tell each node on the way what came of it."""
        for env, (after, rated) in enumerate(self.here()):
            node, action = paths[env][-1]
            node.paid[action], value = paid[env], 0.0 if over[env] else rated
            if over[env]:
                node.odds[action] = 0.0  # nothing else will come of it
            else:
                node.after[action] = after
            for node, action in reversed(paths[env]):
                value = node.paid[action] + DISCOUNT * value
                node.visits[action] += 1
                node.worth[action] += value


class Expert(TorchLearner):
    """Makes what was tried often likely, and values what the search found."""

    reads = ("observations", "visits", "worth")

    def update(self, batch, call):
        """Many steps with the moves, which are the last rows of all rounds."""
        moves = (batch.gather(key)[:, TRIES :: TRIES + 1] for key in self.reads)
        seen, visits, worth = (self.tensor(each).flatten(0, 2) for each in moves)
        for _ in range(48):
            chances, values = self.module({"observations": seen})
            surprise = -(visits / TRIES * chances.logits).sum(1).mean()
            self.step(surprise + (values - worth / TRIES).square().mean())
        return {"surprise": surprise.item()}


def workload(search: bool = True, actors: int = 2, total_steps: int = 40_000) -> Workload:
    """What ``artos run my_tree_search.py:workload`` runs; without ``search`` it is PPO."""
    env, when, steps = "my_branches:doors", RoundTrigger(), TRIES + 1
    actor, learner = Searching(env, Told, envs=8 // actors), Expert(lr=1e-3)
    claim = DataKeyTrigger(Expert.reads, n=actors, size=24 * steps)
    if not search:
        when, steps = ObjectKeyTrigger("model_param"), 8
        actor, learner = RolloutActor(env, Network, envs=32 // actors), PPO(lr=1e-3)
        claim = DataKeyTrigger((*ROW, *POLICY), n=actors, size=steps, max_lag=0)
    return Workload(
        name="tree_search", actor=actor, learner=learner,
        triggers={"learner.update": claim, "actors.sample": when},
        actors=actors, steps=steps, total_steps=total_steps,
    )  # fmt: skip
