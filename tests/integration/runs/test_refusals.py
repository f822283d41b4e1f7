"""Bad input: one message with all faults, exit status 2, nothing started and nothing left."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_runs import ROOT, Outcome, shared_memory

from deploy.cli.__main__ import main

FAULTY = "faulty_algorithms.py:"


@pytest.fixture
def refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a command that must be refused; returns what it said."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*arguments: str) -> str:
        files = sorted(home.rglob("*.[!p]*"))
        status = main(["run", *arguments, "--json"])
        said = capsys.readouterr()
        assert status == 2, said.err
        assert not said.out
        assert "Traceback" not in said.err or "raised" in said.err
        assert [f for f in sorted(home.rglob("*.[!p]*")) if f.parent.name != "__pycache__"] == files
        assert not (home / "runs").exists()
        assert not shared_memory()
        return said.err

    return run


INLINE = {
    "unknown algorithm": (["ppoo"], ["unknown workload 'ppoo'", "did you mean ppo or appo"]),
    "no workload": ([], ["name a workload"]),
    "unknown file": (["counting_.py:workload"], ["there is no file", "counting.py"]),
    "unknown object": (["counting.py:worklaod"], ["no object 'worklaod'", "did you mean workload"]),
    "no object": (["counting.py"], ["say which object of the file to run: counting.py:workload"]),
    "a file without any": (["toys_to_run.py"], ["has no Workload, and no function"]),
    "no .py": (["counting:workload"], ["did you mean counting.py:workload?"]),
    "no .py and no object": (["counting"], ["did you mean counting.py?"]),
    "a flag of what the workload says itself": (
        ["counting.py:workload", "--env", "CartPole-v1"],
        ["sets env itself: leave out --env"],
    ),
    "a setting of every workload": (["ppo", "--set", "prk=memory"], ["did you mean park"]),
    "a flag as a setting": (["ppo", "--set", "seed=3"], ["unknown setting 'seed': write --seed"]),
    "an unknown device, beside other faults": (
        ["ppo", "--device", "gpu", "--set", "lr=-1"],
        ["unknown device 'gpu': use auto, cpu, cuda, cuda:N or pool", "lr must be"],
    ),
    "turns, beside other faults": (
        ["ppo", "--weight", "0", "--priority", "1001", "--set", "lr=-1"],
        ["weight must be within 0.001 and 1000, 1 is usual, not 0",
         "priority must be within -1000 and 1000", "lr must be"],
    ),
    "a weight that is no number": (["ppo", "--weight", "nan"], ["weight"]),
    "a weight beyond all": (["ppo", "--weight", "1e9"], ["weight must be within 0.001 and 1000"]),
    "turns in other words": (
        ["ppo", "--weight", "much", "--priority", "1.5"],
        ["setting weight='much'", "setting priority='1.5'"],
    ),
    "a device of the pool for a learner without torch": (
        ["counting.py:workload", "--device", "pool"],
        ["device is 'pool', but ", " computes on the CPU only"],
    ),
    "a device for a learner without torch": (
        ["counting.py:workload", "--device", "cuda:0"],
        ["computes on the CPU only"],
    ),
    "not a workload": ([FAULTY + "number"], ["is a int, not a Workload"]),
    "builder returns something else": ([FAULTY + "nothing"], ["returned a int, not a Workload"]),
    "builder raises": ([FAULTY + "raises"], ["ZeroDivisionError: in the builder"]),
    "failing import": (["broken_module.py:workload"], ["cannot be imported", "ModuleNotFound"]),
    "syntax error": (["half_a_module.py:workload"], ["cannot be imported", "SyntaxError"]),
    "--set without =": (["ppo", "--set", "lr"], ["--set 'lr': write KEY=VALUE"]),
    "all settings at once": (
        ["ppo", "--set", "lrr=1", "--set", "epochs=many", "--set", "steps=0", "--actors", "-3",
         "--total-steps", "0", "--env", "CartPole-v11", "--deadline", "0", "--seed", "-1"],
        ["unknown setting 'lrr': did you mean lr", "setting epochs='many': write a whole number",
         "steps must be at least 1, not 0", "actors must be at least 1, not -3",
         "total_steps must be at least 1, not 0", "unknown environment 'CartPole-v11'",
         "CartPole-v1", "--deadline must be positive", "--seed must be within 0 and"],
    ),
    "what PPO does not take": (
        ["ppo", "--set", "minibatches=0", "--set", "lr=inf", "--set", "gamma=2", "--set",
         "vf_coef=-1", "--set", "ent_coef=inf", "--set", "value_clip=0", "--set", "target_kl=-1",
         "--set", "threads=100000", "--set", "slots=-1", "--set", "image_mb=-1"],
        ["minibatches must be positive", "lr must be positive", "gamma must be within 0 and 1",
         "vf_coef must be finite and not negative", "ent_coef must be finite", "value_clip must be",
         "target_kl must be", "threads must be within 0 and 1024", "slots must be at least 0",
         "image_mb must be at least 0"],
    ),
    "what A2C does not take": (
        ["a2c", "--set", "lr=-1", "--set", "gamma=-0.1", "--set", "lam=2", "--set",
         "max_grad_norm=0", "--set", "images=tmpfs"],
        ["images=tmpfs needs image_mb", "lr must be positive, not -1",
         "gamma must be within 0 and 1", "lam must be within 0 and",
         "max_grad_norm must be positive or none"],
    ),
    "no such optimiser": (
        ["a2c", "--set", "optimiser=sgd"], ["optimiser='sgd': write one of adam, rmsprop"],
    ),
    "what IMPALA does not take": (
        ["impala", "--set", "clip_rho=0", "--set", "clip_c=-1", "--set", "ent_coef=-1"],
        ["clip_rho must be positive, not 0", "clip_c must be positive, not -1",
         "ent_coef must be finite and not negative"],
    ),
    "rounds that do not divide": (
        ["appo", "--actors", "3", "--set", "envs=1", "--set", "steps=20", "--set", "minibatches=3"],
        ["1 actors x 1 envs x 20 steps = 20 rows do not divide into 3 minibatches"],
    ),
    "what TRPO does not take": (
        ["trpo", "--set", "max_kl=0", "--set", "damping=-1", "--set", "conjugate_steps=0"],
        ["max_kl must be positive, not 0", "damping must be finite and not negative",
         "conjugate_steps must be"],
    ),
    "rounds of more actors than there are": (
        ["impala", "--actors", "2", "--set", "n=3"], ["waits for n=3 actors, but there are 2"],
    ),
    "a batch of no rounds": (
        ["impala", "--set", "n=0"], ["n must be a whole number of at least 1, not 0"],
    ),
    "rows newer than the newest": (
        ["impala", "--set", "max_lag=-1"], ["max_lag must be a whole number of at least 0"],
    ),
    "more than there can be": (
        ["ppo", "--actors", "1e9", "--set", "hidden=1e9", "--set", "steps=1e30"],
        ["actors must be at most 65536",
         "setting steps='1e30': the number does not fit into 64 bits"],
    ),
    "no time that a clock knows": (
        ["ppo", "--deadline", "inf"], ["--deadline must be positive, at most 1e+08 seconds"],
    ),
    "layers as long as memory": (["ppo", "--set", "hidden=1e9"], ["has 1 to 65536 units"]),
    "values of another type": (
        ["ppo", "--set", "hidden=a,b", "--set", "anneal=yes", "--set", "lr=nan", "--set",
         "pipeline=dul", "--set", "clip=", "--set", "pin=1", "--set", "park=memry"],
        ["hidden='a,b': write ints with commas between them (64,64)", "anneal='yes': write true or",
         "lr='nan': write a number (0.5, 3e-4) or none", "pipeline='dul': write one of none, dual",
         "clip='': write a number", "pin='1': write true", "park='memry': write one of auto, mem"],
    ),
    "rows do not divide": (["ppo", "--set", "minibatches=7"], ["do not divide into 7 minibatches"]),
    "environment factory raises": (["ppo", "--env", "toys_to_run:broken"], ["no such level"]),
    "factory of something else": (
        ["ppo", "--env", "toys_to_run:no_environment"], ["returned a int"],
    ),
    "no such factory": (["ppo", "--env", "toys_to_run:plan"], ["has no plan"]),
    "no such module": (["ppo", "--env", "toy_to_run:plain"], ["there is no module toy_to_run"]),
    "policy does not fit": ([FAULTY + "wrong_policy"], ["has shape (3, 2); return (3,)"]),
    "nobody writes a key": ([FAULTY + "unwritten_key"], ["'altitude' is not written"]),
    "wrong shape": ([FAULTY + "wrong_shape"], ["float32[7]", "writes float32[3]"]),
    "wrong dtype": ([FAULTY + "wrong_dtype"], ["'complex64' cannot be stored in shared memory"]),
    "size above capacity": ([FAULTY + "too_small"], ["never fit the capacity of 8"]),
    "not a trigger": ([FAULTY + "not_a_trigger"], ["is a int, not a Trigger"]),
    "no trigger in a trigger": (
        [FAULTY + "no_condition"], ["triggers['learner.update']: 2 is no trigger: the condition"],
    ),
    "a text in the table": ([FAULTY + "in_words"], ["is a str, not a Trigger"]),
    "unknown keys and methods": (
        [FAULTY + "unknown_key"],
        ["unknown data key 'reward': did you mean rewards", "unknown object key 'model_params'",
         "no method 'upgrade': did you mean update"],
    ),
    "negative in a file": (
        [FAULTY + "negative"],
        ["actors must be at least 1, not -2", "steps must be at least 1, not 0",
         "on_full is 'waits': did you mean wait?"],
    ),
    "nothing to resume": (["--resume", "nowhere"], ["there is no run"]),
    "resume with a workload": (["ppo", "--resume", "nowhere"], ["--resume takes no workload"]),
}  # fmt: skip


@pytest.mark.parametrize("case", INLINE)
def test_refused(case: str, refused: Callable[..., str], home: Path) -> None:
    (home / "broken_module.py").write_text("import nothing_of_that_name\n")
    (home / "half_a_module.py").write_text("def workload(:\n")
    arguments, expected = INLINE[case]
    said = refused(*arguments, *([] if "--resume" in arguments else ["--inline"]))
    missing = [text for text in expected if text not in said]
    assert not missing, f"{missing} not in {said}"


@pytest.mark.parametrize(
    ("value", "words"),
    [("", "images must be disk, tmpfs or a folder"), ("/dev/null", "/dev/null: Not a directory")],
)
def test_a_place_where_no_images_can_be(
    value: str, words: str, refused: Callable[..., str]
) -> None:
    assert words in refused("ppo", "--env", "CartPole-v1", "--inline", "--set", f"images={value}")


def test_refused_by_the_registering_process(refused: Callable[..., str]) -> None:
    """The same through a process of its own, as without --inline."""
    said = refused("ppo", "--env", "CartPole-v11", "--actors", "0", "--set", "lrr=1")
    for text in ("CartPole-v1", "actors must be at least 1", "did you mean lr"):
        assert text in said


def test_a_module_that_ends_the_process(refused: Callable[..., str], home: Path) -> None:
    (home / "quits.py").write_text("import os\nprint('half a word', flush=True)\nos._exit(7)\n")
    assert "ended with exit status 7" in refused("quits.py:workload")


def test_a_module_that_prints(artos: Callable[..., Outcome], home: Path) -> None:
    text = (home / "counting.py").read_text()
    (home / "chatty.py").write_text(text + "import os\nprint('hello')\nos.system('echo hello')\n")
    outcome = artos("explain", "chatty.py:workload", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["name"] == "counting"


@pytest.fixture
def small_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A shared-memory filesystem of 256 KiB."""
    folder = tmp_path_factory.mktemp("shm")
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_shared_memory_too_small(small_memory: Path, artos: Callable[..., Outcome]) -> None:
    outcome = artos("run", "ppo", "--json", ARTOS_SHM=str(small_memory))
    assert outcome.status == 2, outcome.err
    assert "has 0.3 MB free, this run needs" in outcome.err
    assert not os.listdir(small_memory)  # noqa: PTH208
