"""IMPALA (Espeholt et al. 2018): its settings, its estimates, its table (paper Tables 1 and 3)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from artos.buffer.samplers.batch import Batch
from artos.learners.settings import (
    ActorCriticSettings,
    EntropyBonus,
    Lambda,
    LongestGradient,
    Steps,
    builder,
    fitted,
    learner,
    left_open,
    table,
)
from artos.losses.rounds import Floats
from artos.losses.vtrace import vtrace
from artos.runs.plan import Plan
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.algorithms.a2c import A2C, A2CSettings, Stepping
from triggers.algorithms.defaults import actor_critic, lag_of
from triggers.algorithms.separate import separated


class IMPALASettings(A2CSettings, kw_only=True, frozen=True):
    """What can be set of IMPALA, with its defaults."""

    steps: Steps = 20
    n: Annotated[int, table("rounds an update learns from, each of another actor")] = 1
    max_lag: Annotated[
        int | None, table("versions rows may be old; none: so that no actor waits")
    ] = None
    optimiser: Stepping = "adam"
    lam: Lambda = 0.95
    clip_rho: Annotated[
        float, learner("bound of the ratio that weighs a row", gt=0, unbounded=True)
    ] = 1.0
    clip_c: Annotated[
        float, learner("bound of the ratio that carries later rows back", gt=0, unbounded=True)
    ] = 1.0
    ent_coef: EntropyBonus = 0.01
    max_grad_norm: LongestGradient = 40.0


class IMPALA(A2C):
    """A2C off-policy: V-trace corrects for the lag of the rows' policies.

    ``clip_rho`` and ``clip_c`` bound the ratio of the learner's policy to the actor's, see
    ``artos.losses.vtrace``.

    Values are those of the network as it is: of all rows of the batch, in the pass that is learned
    from. Only where no row holds the state that followed, after a truncation and at the end of a
    round, is it the estimate ``bootstraps`` that the actor made of it, by the version it sampled
    with. The value bootstrapped from is then as many versions old as the row, like that of a target
    network, and at lag 0 exact. Advantages are never normalised: their mean is a baseline only for
    rows that the newest policy sampled.
    """

    Settings: ClassVar[type[ActorCriticSettings]] = IMPALASettings
    settings: IMPALASettings
    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "log_probs", "bootstraps")

    def _actors(self, plan: Plan) -> tuple[int]:
        return (self.settings.n,)

    def _estimates(self, batch: Batch, log_probs: Floats, values: Floats) -> tuple[Floats, Floats]:
        ratios = log_probs - batch.gather("log_probs")
        rho, c = self.settings.clip_rho, self.settings.clip_c
        return vtrace(ratios, **self._rounds(batch), values=values, clip_rho=rho, clip_c=c)


@builder(IMPALASettings)
def workload(settings: IMPALASettings) -> Workload:
    """IMPALA on any environment.

    An update takes the next ``n`` rounds that came, first come, first served. An actor goes on with
    its next round at once, with the newest weights there are; ``max_lag`` bounds how far actors are
    ahead of the learner, and V-trace corrects for the rest. By default every actor may have a round
    under way and another one that waits for the learner. With ``n`` above 1 an actor waits until
    its last round is taken, except if ``n`` is the number of actors.
    """
    actor = actor_critic(settings)
    found, n = fitted(settings, actor.spec), settings.n
    keys = tuple(key.name for key in actor.data_keys())
    max_lag = lag_of(found.actors, n, found.max_lag)
    return separated(Workload(
        name="impala",
        actor=actor,
        learner=IMPALA(found),
        triggers={
            "learner.update": DataKeyTrigger(keys, n=n, size=found.steps, max_lag=max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=found.actors, steps=found.steps, total_steps=found.total_steps,
        settings=left_open(found) | {"max_lag": max_lag},
    ))  # fmt: skip
