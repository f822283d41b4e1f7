"""``artos.load``: what a run has trained, on this machine or on a head."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from artos.specs.fields import NAME
from artos.system.user_cache import user_cache

if TYPE_CHECKING:
    from artos.trained.trained import Trained


def load(
    path: str | Path, *, seed: int = 0, code: str | Path | None = None, trust: bool = False
) -> Trained:
    """Load the newest weights of a run, which may be over or live.

    ``path`` is the run's folder, or ``RUN@HEAD``, a run of a head: its checkpoint is copied first,
    with the keys of ``ARTOS_KEYS``; ``RUN@`` is one of the head that ``ARTOS_HEAD`` names. The
    policy is built by the run's own code, which is imported from where it was when the run began;
    ``code`` is the folder of the file if it has moved since, or was sent to a head. Where others
    may have written to that place, as in a folder that was received, ``trust`` says to run what is
    there. ``seed`` is for actions that are sampled. The environment is not needed.

    Raises:
        NoSuchRun: it is not the folder of a run, or the head has no such run.
        CheckpointFault: nothing is saved yet, it is damaged, or it does not fit the code.
        Refused: the code is not there any more, cannot be imported, or has no policy.
        NoHead, WrongKeys, DeadlineExceeded: the head does not answer.
    """
    from artos.trained import trained  # noqa: PLC0415 (it needs Gymnasium)

    return trained.load(local(path), seed=seed, code=code, trust=trust)


def local(path: str | Path) -> Path:
    """The folder of a run on this machine; of ``RUN@HEAD`` a copy of the newest checkpoint."""
    name, at, head = str(path).partition("@")
    if not at or Path(path).exists() or not NAME.fullmatch(name):
        return Path(path)
    from deploy.api.cluster import Cluster  # noqa: PLC0415 (few need it)

    place = hashlib.sha256(head.encode()).hexdigest()[:16]
    with Cluster(head or None) as cluster:
        return cluster.get(name, user_cache() / "copies" / place / name, "checkpoint").folder
