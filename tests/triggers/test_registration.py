"""How a registration that ended without an answer is told, forked or started anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.errors import Refused
from artos.runtime import learner_registration
from artos.runtime import register as registering
from artos.runtime.preload import Preloaded
from artos.specs.reference import Reference
from triggers.algorithms import BUILT_IN
from triggers.registration import prepare, register_apart

ENDS = [
    ("os.kill(os.getpid(), 9)", r"was killed \(SIGKILL\); unless somebody did that, this machine"),
    ("os.kill(os.getpid(), 11)", r"crashed \(Segmentation fault\)"),
    (
        "print('so it is', flush=True); os._exit(7)",
        r"ended with exit status 7; its last output:\nso it is",
    ),
]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A file of a user's, not written yet."""
    return tmp_path / "mine.py"


def register(module: Path) -> None:
    reference = Reference(f"{module}:table", folder=str(module.parent))
    with Preloaded(reference) as preloaded:
        register_apart(reference, 1, preloaded)


@pytest.mark.parametrize(("end", "words"), ENDS)
def test_a_builder_that_ends_its_process(end: str, words: str, module: Path) -> None:
    module.write_text(f"import os\ndef table():\n    {end}\n".replace("; ", "\n    "))
    with pytest.raises(Refused, match=f"building {module}:table {words}"):
        register(module)


@pytest.mark.parametrize(("end", "words"), ENDS)
def test_an_import_that_ends_its_process(end: str, words: str, module: Path) -> None:
    module.write_text(f"import os\n{end}\n")
    with pytest.raises(Refused, match=f"building {module}:table {words}"):
        register(module)


@pytest.mark.parametrize(
    ("settings", "threads", "follow"),
    [({"hidden": "512,512"}, 4, True), ({"hidden": "8"}, 1, False)],
)
def test_a_seed_decides_every_bit_in_one_process_alone(
    settings: dict[str, str],
    threads: int,
    follow: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There free cores, which are more or fewer each time, do not decide about threads."""
    monkeypatch.setattr(learner_registration, "usable_cpus", lambda: (0, 1, 2, 3))

    def reference(**more: int) -> Reference:
        named = {"env": "Pendulum-v1", **settings, **more}
        return Reference.of("sac", named, tmp_path, BUILT_IN)

    plan = registering.register(reference(), 1).plan
    assert plan is not None
    assert (plan.threads, plan.threads_follow) == (threads, follow)
    plan = prepare(reference(), 1, apart=False).plan
    assert (plan.threads, plan.threads_follow) == (1, False)
    plan = prepare(reference(threads=3), 1, apart=False).plan
    assert (plan.threads, plan.threads_follow) == (3, False)
