"""What others ask of a live run through its board: other settings, more actors, a branch."""

from __future__ import annotations

from collections.abc import Callable

from artos.errors import Refused
from artos.protocol import control
from artos.scaling.faults import CannotScale
from head.run.concerns.configured import Configured
from head.run.concerns.scaling import Scaling
from head.run.run import Run


def answered(
    run: Run,
    request: control.LocalRequest,
    branch: Callable[[control.BranchRun], control.RunBranched],
) -> control.LocalReply:
    """Do it, or say why not; ``branch`` has an actor's episode continued."""
    if isinstance(request, control.SetRun):
        try:
            now = run.concern(Configured).set(request.settings)
        except Refused as refused:
            return control.RunSet(fault=str(refused))
        return control.RunSet(now.number, now.settings)
    if isinstance(request, control.BranchRun):
        try:
            return branch(request)
        except OSError as error:
            return control.RunBranched(fault=f"{error.filename}: {error.strerror}")
    most = run.plan.actors
    try:
        run.concern(Scaling).scale(request.actors)
    except CannotScale as error:
        return control.RunScaled(len(run.actors), most, str(error))
    return control.RunScaled(request.actors, most)
