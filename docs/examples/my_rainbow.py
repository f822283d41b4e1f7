"""Rainbow (Hessel et al. 2018): Q-learning of distributions, by a network that explores itself."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from artos import ActInfo, DrawnBatch, Invoke, Prioritised, RolloutActor, TorchLearner, Workload
from triggers import ReplayTrigger, RoundTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations")
ATOMS, MOST = 51, 200.0


class Noisy(nn.Module):
    """A layer whose weights have deviations that are learned, too (Fortunato et al. 2018)."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.mean, self.deviation = nn.Linear(inside, outside), nn.Linear(inside, outside)
        for parameter in self.deviation.parameters():
            nn.init.constant_(parameter, 0.5 / inside**0.5)

    def forward(self, x: Tensor, noisy: bool) -> Tensor:
        """(n, inside) to (n, outside); noise is drawn once for all n."""
        out = self.mean(x)
        if not noisy:
            return out
        drawn = (torch.randn_like(x[:1]), torch.randn_like(out[:1]))
        before, after = (each.sign() * each.abs().sqrt() for each in drawn)
        return out + after * self.deviation(before * x)


class Distributions(nn.Module):
    """How likely each of ATOMS returns is after each action: a state's value and advantages."""

    outputs = ()

    def __init__(self, spec) -> None:
        super().__init__()
        width, self.choices = spec.parts[0].shape[0], spec.actions.sizes[0]
        self.inside = nn.Linear(width, 128)
        self.value = nn.ModuleList([Noisy(128, 128), Noisy(128, ATOMS)])
        self.advantage = nn.ModuleList([Noisy(128, 128), Noisy(128, self.choices * ATOMS)])
        self.register_buffer("returns", torch.linspace(0, MOST, ATOMS))

    def forward(self, obs: dict[str, Tensor], noisy: bool = True) -> Tensor:
        """Logarithms of probabilities, (n, choices, ATOMS)."""
        seen = functional.relu(self.inside(obs["observations"]))
        value, advantage = (
            last(functional.relu(first(seen, noisy)), noisy)
            for first, last in (self.value, self.advantage)
        )
        advantage = advantage.unflatten(1, (self.choices, ATOMS))
        advantage = advantage - advantage.mean(1, keepdim=True)
        return (value.unsqueeze(1) + advantage).log_softmax(2)

    def best(self, obs: dict[str, Tensor], noisy: bool = True) -> Tensor:
        """The actions whose returns are the highest on average, (n,)."""
        return (self(obs, noisy).exp() @ self.returns).argmax(1)

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """It explores as its weights are noisy."""
        return {"actions": self.best(obs, noisy=not info.greedy)}


class Rainbow(TorchLearner):
    """Double Q-learning of distributions over several steps, of what surprises most."""

    publishing = "itself"
    calls = ("best",)

    def setup(self, context) -> None:
        """Beside the policy's network, own a second one that follows it."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """One step on the transitions that the trigger has drawn."""
        seen, following = self.observations(batch), self.observations(batch, "next.")
        each = torch.arange(len(batch.index))
        with torch.no_grad():
            after = self.target(following)[each, self.module.best(following)].exp()
            wanted = self.projected(after, batch)
        found = self.module(seen)[each, self.tensor(batch["actions"])]
        distances = functional.kl_div(found, wanted, reduction="none").sum(1)
        batch.prioritise(distances.detach().clamp(min=0).cpu().numpy())
        self.step((self.tensor(batch.weights) * distances).mean())
        self.target.follow(self.network, 0.01)
        if self.network.steps % 8 == 0:
            self.publish()
        q = (found.detach().exp() @ self.module.returns).mean()
        return {"distance": distances.mean().item(), "q": q.item()}

    def projected(self, after: Tensor, batch: DrawnBatch) -> Tensor:
        """Of returns then, (n, ATOMS), those now: each is shared by the two atoms beside it."""
        rewards, discounts = (self.tensor(batch[f"n_step.{of}"]) for of in ("returns", "discounts"))
        now = rewards.unsqueeze(1) + discounts.unsqueeze(1) * self.module.returns
        away = (now.clamp(0, MOST).unsqueeze(2) - self.module.returns).abs()
        shares = (1 - away * (ATOMS - 1) / MOST).clamp(min=0)
        return torch.einsum("na,nab->nb", after, shares)


def workload(env: str = "CartPole-v1", actors: int = 2, total_steps: int = 40_000) -> Workload:
    """What ``artos run my_rainbow.py:workload`` runs; every argument is a ``--set``."""
    drawn = Prioritised(64, alpha=0.5, beta=(0.4, 1.0), n_step=3)
    return Workload(
        name="rainbow",
        actor=RolloutActor(env, Distributions, envs=2),
        learner=Rainbow(lr=5e-4, max_grad_norm=10.0),
        triggers={
            "learner.update": ReplayTrigger(ROW, drawn, ratio=16.0, after=1_000),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, capacity=10_000, on_full="overwrite",
    )  # fmt: skip
