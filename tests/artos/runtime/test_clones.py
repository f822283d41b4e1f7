"""A template that was checkpointed while it slept: many live copies of one image, each its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from elastic import needs_criu
from stage import PATIENCE, ROUND, ROUNDS, Stage, rows_here

from artos.runtime.template import WAKE, Identity, tell
from artos.specs.members import ACTORS, Member
from artos.system.child import Child
from workers.checkpoint.criu.driver import Criu, criu_here
from workers.checkpoint.facts import Facts
from workers.checkpoint.images import Image, ImageStore

pytestmark = [pytest.mark.processes, needs_criu]

_APART = ("unshare", "--pid", "--fork", "--kill-child=KILL", "setsid")


class Cloning:
    """A template's image, and actors made of it."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._identity = stage, stage.logs / "identity"
        criu = criu_here()
        assert isinstance(criu, Criu)
        self._criu = criu
        self._image = self._checkpoint()

    def _checkpoint(self) -> Image:
        template = self._stage.start_template("image", str(self._identity), prefix=_APART)
        self._stage.ready(self._stage.template)
        children = Path(f"/proc/{template.pid}/task/{template.pid}/children").read_text()
        pid = int(children)
        image = ImageStore(Path(self._stage.node.site.folder, "images"), 4 << 30).begin("template")
        facts = Facts.of(pid, self._criu.version)
        self._criu.dump(pid, image).wait(PATIENCE)
        image.seal(facts)
        template.wait(PATIENCE)
        return image

    def clone(self, actor: int, *, wake: bool = True) -> Child:
        """Restore the image as that actor."""
        mine, log = self._identity.with_name(f"identity-{actor}"), self._stage.log(actor)
        tell(mine, Identity(self._stage.site(actor)))
        with mine.open("rb") as who, log.open("ab") as output:
            template_log = self._stage.logs / "template.log"
            inherit = {str(self._identity): who.fileno(), str(template_log): output.fileno()}
            outcome = self._criu.restore(self._image, inherit).wait(PATIENCE)
        child = self._stage.keep(Child(outcome.pid, log))
        if wake:
            os.kill(child.pid, WAKE)
        return child


@pytest.mark.usefixtures("atari")
@pytest.mark.parametrize(
    "env", ["CartPole-v1", pytest.param("PongNoFrameskip-v4", marks=pytest.mark.long)]
)
def test_clones_live_side_by_side_and_write_what_unprepared_actors_write(
    env: str, tmp_path: Path
) -> None:
    with Stage(env, tmp_path) as stage:
        cloning = Cloning(stage)
        for actor in (0, 1):
            cloning.clone(actor, wake=False)
        for child in stage._children:
            os.kill(child.pid, WAKE)
        for actor in (0, 1):
            assert stage.ready(Member(ACTORS, actor)).incarnation == 1
        for stop in range(ROUND, (ROUNDS + 1) * ROUND, ROUND):
            for actor in (0, 1):
                stage.sample(actor, stop)
            for actor in (1, 0):
                stage.done(actor)
        found = [stage.written(actor) for actor in (0, 1)]
    assert found == [rows_here(env, actor) for actor in (0, 1)]
    assert found[0]["actions"] != found[1]["actions"]


@pytest.mark.long
def test_global_random_streams_of_clones_differ(tmp_path: Path) -> None:
    with Stage("toys_to_prepare:plain", tmp_path) as stage:
        cloning, found = Cloning(stage), []
        for actor in (0, 1):
            cloning.clone(actor)
            stage.ready(Member(ACTORS, actor))
            found.append(stage.rows(actor, rounds=1)["observations"])
    assert found[0] != found[1]


@pytest.mark.long
def test_a_clone_stops_when_told_and_says_what_it_has_to_say_in_its_own_log(tmp_path: Path) -> None:
    with Stage("toys_to_prepare:raising_on_reset", tmp_path) as stage:
        child = Cloning(stage).clone(1)
        report = stage.hear(Member(ACTORS, 1))
        assert "no reset today" in getattr(report, "trace", "")
        child.end(PATIENCE)
        assert child.died() == 3
        assert "resetting" in stage.log(1).read_text()
        assert "resetting" not in stage.said()["template.log"]
