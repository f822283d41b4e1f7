"""A trained policy: acts, shows its network and its run's configuration, and is exported."""

from __future__ import annotations

import traceback
from functools import cached_property
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from artos.envs.spec import EnvSpec
from artos.envs.stepper import action_writer
from artos.errors import ArtosError, CheckpointFault, Refused
from artos.policies.acting import ActInfo, BoundPolicy, Declared
from artos.runs.loader import user_imports
from artos.specs.bound import Bound
from artos.specs.keys import MODEL_PARAM, DataKey
from artos.system.random_streams import Purpose, seed_of
from artos.trained.evaluation import During
from artos.trained.observations import batch_of, state_of
from artos.trained.record import Record, read

if TYPE_CHECKING:
    from torch import Tensor, nn

    from artos.trained.evaluation import Evaluation, Note
    from artos.trained.recording import Recorded

_NO_PAST = (
    "version {} is kept without past ones, as a best version is: where its actors had past(k), it "
    "is that version itself"
)


def load(
    path: str | Path,
    *,
    best: bool = False,
    policy: str = "",
    seed: int = 0,
    code: str | Path | None = None,
    trust: bool = False,
) -> Trained:
    """Load the newest weights of a run, which may be over or live.

    With ``best`` those of the version with the best evaluation (setting ``evaluate_every``). Of a
    game of several policies ``policy`` names the one that acts; by default it is the first.

    ``path`` is the run's folder, or ``RUN@HEAD``: a run of that head, whose newest checkpoint is
    copied here with the keys in ``ARTOS_KEYS``; ``RUN@`` is one of the head in ``ARTOS_HEAD``. The
    policy is built by the run's own code, which is imported from where it was when the run began;
    ``code`` is the folder of the file if it has moved since. Where others may have written to that
    place, as in a folder that was received, ``trust`` says to run what is there.
    ``seed`` is for actions that are sampled. The environment is not needed.

    Raises:
        NoSuchRun: it is not the folder of a run.
        CheckpointFault: nothing is saved yet, no best version is kept, it is damaged, or it does
            not fit the code.
        Refused: the code is not there any more, cannot be imported, or has no policy; or the head
            refuses; or no such policy plays.
        NoHead, WrongKeys, DeadlineExceeded: the head does not answer.
    """
    if "@" in str(path):  # by name, as what asks a head stands on a floor above
        path = import_module("deploy.client.copies").local(str(path))
    folder = None if code is None else Path(code)
    record = read(Path(path), folder, trust=trust, best=best)
    return Trained(record, record.workload(), str(path), seed, policy)


class Trained:
    """The policy of a run, made by ``artos.load``."""

    def __init__(
        self, record: Record, workload: Any, name: str, seed: int = 0, policy: str = ""
    ) -> None:
        self.name, self._record, self._workload = name, record, workload
        self._actor, self._beside = workload.actor, ""
        if policy and policy not in workload.actor.policies:
            known = ", ".join(workload.actor.policies) or "one without a name, leave policy out"
            raise Refused([f"run {name} has no policy {policy!r}: it has {known}"])
        with user_imports(record.reference.folder):
            if policy and policy != workload.actor.policies[0]:
                self._actor, self._beside = workload.actor.seat(policy), policy
            self.spec: EnvSpec = self._actor.spec
        try:
            self._policy = self.policy(seed)
            self._to_env = action_writer(self.spec.actions)
        except ArtosError:
            raise
        except Exception as error:  # by the run's own code
            at = traceback.extract_tb(error.__traceback__)[-1]
            why = (
                f"its policy cannot be built: {type(error).__name__}: {error} ({at.filename}, "
                f"line {at.lineno}): its config.json is damaged, or the code has changed since"
            )
            raise CheckpointFault(self.name, why) from error

    @property
    def config(self) -> dict[str, Any]:
        """What the run's ``config.json`` holds: settings, seed, versions, and where it was run."""
        return self._record.config

    @property
    def steps(self) -> int:
        """Environment steps that these weights are made of."""
        return self._record.manifest.steps

    @property
    def progress(self) -> float:
        """The share of the run's budget that was used, 0 to 1, as policies see it."""
        ended, used = self._record.manifest, self._workload
        shares = ((ended.steps, used.total_steps), (ended.updates, used.total_updates))
        return float(min(1.0, max((done / most for done, most in shares if most), default=1.0)))

    @property
    def memory(self) -> tuple[DataKey, ...]:
        """The recurrent state that the policy keeps of each environment; empty if it has none."""
        declared: Declared | None = self._actor.declared
        return declared.state if declared else ()

    def act(
        self, obs: Any, greedy: bool = True, state: dict[str, Any] | None = None, mask: Any = None
    ) -> Any:
        """Actions for one observation or a batch, in the form that the environment takes.

        ``obs`` has the shape that the environment shows, or (B, *shape); for a Dict space it is a
        dict of such arrays. Actions are shifted, clipped and cast to the environment's own: one of
        them or (B, *shape). Without ``greedy`` they are drawn as during training. They come from
        the saved weights, even if ``module`` was changed.

        A recurrent policy needs a dict as ``state``: empty where episodes begin, and from then on
        as each call leaves it, (B, *shape) by name. ``mask`` is ``info["action_mask"]``, (choices,)
        or (B, choices), where the environment says there which actions may be chosen.

        Raises:
            Refused: the observations are not those of the run's environment, the mask is missing or
                allows nothing, or a recurrent policy was given no ``state``, or the state of a
                batch of another size.
        """
        parts, single = batch_of(obs, self.spec, mask)
        count = len(next(iter(parts.values())))
        memory = state_of(self.memory, state, count)
        info = ActInfo(
            progress=self.progress,
            steps=self.steps,
            greedy=greedy,
            state=memory,
            bound=self.bound,
            learned_from=False,
        )
        acted = self._policy.act(parts, info)
        if state is not None:
            state.update({name: np.array(acted[name]) for name in memory})
        actions = self._to_env(np.array(acted["actions"]))
        return actions[0] if single else actions

    @cached_property
    def module(self) -> nn.Module:
        """The network with the trained weights, in evaluation mode: yours to use and to change.

        It is the run's own class. Parts of built-in policies that are not made of ordinary layers
        are replaced by layers with the same results (``PlainActorCritic``, ``PlainCnn``).
        """
        from artos.policies.plain import plain  # noqa: PLC0415

        return plain(self._build()).eval()

    def state_dict(self) -> dict[str, Tensor]:
        """The weights of ``module`` by name, e.g. ``policy.0.weight`` (out, in)."""
        return dict(self.module.state_dict())

    def export(self, path: str | Path) -> None:
        """Write ``module`` as a program that needs no ARTOS, for greedy actions of batches.

        ``FILE.pt2`` is for ``torch.export.load(FILE).module()``, ``FILE.onnx`` for ONNX runtimes.
        It takes a batch of observations of any size, for a Dict space a dict by dotted names, and
        gives actions as ``act`` does. The program of a recurrent policy also takes a dict of its
        state, zeros where episodes begin, and gives actions and the new state.

        Raises:
            Refused: the file has another ending, the network cannot be exported, or ONNX's packages
                are missing (``pip install 'artos[onnx]'``).
        """
        from artos.trained.export import export  # noqa: PLC0415

        export(self.module, self.spec, Path(path), self.memory, self.bound)

    def evaluate(
        self,
        episodes: int = 10,
        *,
        greedy: bool = True,
        seed: int = 1,
        env: str = "",
        video: str | Path | None = None,
        deadline: float = 300.0,
        note: Note = lambda episodes, steps: None,
    ) -> Evaluation:
        """Play whole episodes with raw rewards, in as many environments as an actor has.

        ``env`` is an environment other than the run's, ``video`` a folder for a GIF of each
        episode. ``Evaluation`` says how environments are seeded. ``note`` is called after every
        step with the number of episodes that are over, and of steps so far.

        Raises:
            Refused: the environment cannot be made or filmed, or is not like the run's.
            DeadlineExceeded: no episode ended for ``deadline`` seconds.
        """
        from artos.trained.playing import Wanted, evaluate  # noqa: PLC0415

        folder = None if video is None else Path(video)
        game = self._game
        wanted = Wanted(episodes, greedy, seed, env or game.spec.name, folder, deadline)
        with user_imports(self._record.reference.folder):
            if game._actor.policies:
                from artos.trained.agents import evaluate_agents  # noqa: PLC0415

                return evaluate_agents(game, self._record, wanted, note)
            return evaluate(self, wanted, note)

    def record(
        self,
        path: str | Path,
        episodes: int = 10,
        *,
        greedy: bool = False,
        seed: int = 1,
        deadline: float = 300.0,
        note: Note = lambda episodes, steps: None,
    ) -> Recorded:
        """Play whole episodes as the run's actors do, and write their rows as a data set.

        It has all that these actors write, one episode after the other, so a workload with
        ``data={"demos": Rows(path)}`` and the same data keys can draw from it. Environments are
        seeded as by ``evaluate``. Where agents of several policies play, ``episodes`` are games:
        each policy has the rows of its agents in it, ``POLICY/KEY``.

        Raises:
            Refused: the file is no .npz file or exists, or the actor cannot store an episode's
                last observation.
            DeadlineExceeded: no episode ended for ``deadline`` seconds.
        """
        from artos.trained.recording import Asked, record  # noqa: PLC0415

        asked = Asked(Path(path), episodes, greedy, seed, deadline)
        with user_imports(self._record.reference.folder):
            return record(self._game, self._record, asked, note)

    @property
    def environments(self) -> int:
        """How many environments each of the run's actors had."""
        return int(self._workload.actor.envs)

    @cached_property
    def _game(self) -> Trained:
        """All policies, of which this may be one."""
        return Trained(self._record, self._workload, self.name) if self._beside else self

    @cached_property
    def bound(self) -> Bound:
        """The version of the weights, what actors read with it, and past ones if they had any.

        These are those that the checkpoint has. The best version is kept without its past.
        """
        if self._beside:
            return self._game.bound
        record, history = self._record, self._actor.history
        version, params = record.manifest.version, self.params if history else None
        # Best versions of older releases do not say which versions of others they were played with.
        versions = dict.fromkeys(self._actor.policies, version) | record.versions
        pasts = record.pasts[:history]
        pasts_of = {n: record.pasts_of.get(n, ())[:history] for n in self._actor.past_of}
        return Bound(version, params, record.objects, versions, pasts, history, pasts_of)

    @property
    def during(self) -> During:
        """Of which run it is, and how far that was."""
        whole = self._workload
        reference, total = self._record.reference, whole.total_steps
        return During(reference, self.progress, self.steps, whole.name, total)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is other than it was while the run trained, for people."""
        lacks = self.bound.history and not self.bound.pasts and self.bound.version > 0
        return (_NO_PAST.format(self.bound.version),) if lacks else ()

    def policy(self, seed: int) -> BoundPolicy:
        """The policy of the run's actors, with the trained weights; ``seed`` is for sampling.

        It takes observations by data key, and gives actions as they are stored.
        """
        module = self._build()
        own = seed_of(seed, Purpose.POLICY)  # an environment may have the same seed
        policy: BoundPolicy = self._actor.make_policy(module, own)
        policy.bind(self._flat(module))
        return policy

    @property
    def params(self) -> NDArray[np.float32]:
        """The trained weights as an actor binds them, (N,)."""
        return self._flat(self._build())

    def _flat(self, module: Any) -> NDArray[np.float32]:
        state = self._state(module)
        return np.concatenate([state[name].reshape(-1) for name, _ in _layout(module)])

    def _state(self, module: nn.Module) -> dict[str, NDArray[np.float32]]:
        """The saved parameters by name; of a policy beside the first they are a vector."""
        if not self._beside:
            return self._record.state
        flat, ends = self._record.objects[f"{self._beside}/{MODEL_PARAM}"], [0]
        layout = _layout(module)
        for _, shape in layout:
            ends.append(ends[-1] + prod(shape))
        if ends[-1] != flat.size:
            why = f"the network of {self._beside} has changed since: it had {flat.size} parameters"
            raise CheckpointFault(self.name, f"{why}, the code builds {ends[-1]}")
        parts = zip(layout, np.split(flat, ends[1:-1]), strict=True)
        return {name: part.reshape(shape) for (name, shape), part in parts}

    def _build(self) -> Any:
        """The run's own module with the trained weights."""
        import torch  # noqa: PLC0415
        from torch import nn  # noqa: PLC0415

        from artos.policies.flat import named_tensors  # noqa: PLC0415

        with user_imports(self._record.reference.folder):
            module = self._actor.build_module(self._record.manifest.seed)
        if not isinstance(module, nn.Module):
            who = f"{type(self._actor).__name__}.build_module"
            raise Refused([f"{who} returned a {type(module).__name__}, not a torch.nn.Module"])
        tensors, state = named_tensors(module), self._state(module)
        saved = {name: tuple(array.shape) for name, array in state.items()}
        built = dict(_layout(module))
        if saved != built:
            names = sorted(name for name in saved | built if saved.get(name) != built.get(name))
            changes = "; ".join(
                f"{n} is {saved.get(n)}, the code builds {built.get(n)}" for n in names[:8]
            )
            why = f"the network has changed since ({changes}): use the code that the run began with"
            raise CheckpointFault(self.name, why)
        with torch.no_grad():
            for name, array in state.items():
                tensors[name].copy_(torch.from_numpy(array))
        return module

    def __repr__(self) -> str:
        what = f"{self.config.get('algorithm')} on {self.spec.name}"
        what += f", policy {self._beside}" * bool(self._beside)
        return f"<Trained {self.name}: {what}, {self.steps:,} steps>"


def _layout(module: nn.Module) -> tuple[tuple[str, tuple[int, ...]], ...]:
    from artos.policies.flat import layout  # noqa: PLC0415

    return layout(module)
