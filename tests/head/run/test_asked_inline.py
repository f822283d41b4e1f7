"""A run in one process answers what is asked of it between two invocations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from inline_runs import finished, registered

from artos.protocol import codec
from artos.protocol.control import BranchRun, LocalReply, LocalRequest, ScaleRun, SetRun
from artos.protocol.invocations import Invoke
from artos.specs.members import CONTROL, Member
from deploy.local.inline import Inline

SMALL = {"env": "CartPole-v1", "envs": 2, "steps": 8, "minibatches": 2, "epochs": 1}


class Asked(Inline):
    """Somebody asks something of it in its tenth invocation, and it is told what is answered."""

    request: LocalRequest
    answer: LocalReply | None = None
    seen: tuple[tuple[str, Mapping[str, float]], ...] = ()

    def _run_one(self, coordinator: Any, member: Member, call: Invoke) -> None:
        kind = type(self)
        kind.seen = (*kind.seen, (call.trigger, call.settings))
        board = self._node.board
        if len(kind.seen) == 10:
            board.up(Member(CONTROL)).put(codec.encode(self.request))
        if (told := board.down(Member(CONTROL)).take()) is not None:
            kind.answer = codec.decode(told)  # type: ignore[assignment]
        super()._run_one(coordinator, member, call)


def asked(request: LocalRequest, folder: Path, **settings: Any) -> type[Asked]:
    kind = type("AskedOnce", (Asked,), {"request": request})
    settings = {**SMALL, "total_steps": 640, **settings}
    finished(registered("ppo", folder, **settings), folder, kind)
    assert kind.answer is not None, "nobody answered"
    return kind


def test_what_is_set_holds_from_the_next_invocation_on(tmp_path: Path) -> None:
    told = asked(SetRun("run", {"learner.lr": 1e-4}, request=7), tmp_path, actors=2)
    answer: Any = told.answer
    assert (answer.number, answer.settings, answer.request) == (1, {"learner.lr": 1e-4}, 7)
    updates = [settings for trigger, settings in told.seen if trigger == "learner.update"]
    assert (updates[0], updates[-1]) == ({}, {"lr": 1e-4})


def test_it_goes_on_with_so_many_actors(tmp_path: Path) -> None:
    answer: Any = asked(ScaleRun("run", 2), tmp_path, actors="1..4").answer
    assert (answer.actors, answer.most, answer.fault) == (2, 4, "")


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (SetRun("run", {"learner.clip": 0.1}), "learner.clip cannot be set"),
        (ScaleRun("run", 9), "2 are registered"),
        (BranchRun("run", actor=0, times=2), "without --inline"),
    ],
)
def test_it_says_what_it_cannot(request_: LocalRequest, why: str, tmp_path: Path) -> None:
    answer: Any = asked(request_, tmp_path, actors=2).answer
    assert why in answer.fault
