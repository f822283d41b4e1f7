"""A search with Ray Tune: each trial is a run, and a scheduler ends the worse ones early."""

import os

from ray import tune

import artos

STEPS = 40_000
# Else Ray kills the run of a trial that it ends, which then cannot clean up.
os.environ["RAY_kill_child_processes_on_worker_exit"] = "0"


def trial(config: dict[str, float]) -> None:
    """A run with the settings of a trial, which tells Tune how it goes on."""

    def watch(status: artos.Status) -> None:
        if status.mean_return_100 is not None:
            tune.report({"mean_return_100": status.mean_return_100, "steps": status.steps})

    artos.run(
        "ppo",
        env="CartPole-v1",
        total_steps=STEPS,
        actors=1,
        run_dir=f"{tune.get_context().get_trial_dir()}/run",
        on_progress=watch,
        lr=config["lr"],
        gamma=config["gamma"],
    )


tuner = tune.Tuner(
    tune.with_resources(trial, {"cpu": 1}),
    param_space={"lr": tune.loguniform(1e-4, 1e-2), "gamma": tune.uniform(0.9, 0.999)},
    tune_config=tune.TuneConfig(
        metric="mean_return_100",
        mode="max",
        num_samples=8,
        scheduler=tune.schedulers.ASHAScheduler(
            time_attr="steps", max_t=2 * STEPS, grace_period=STEPS // 8
        ),
    ),
)
best = tuner.fit().get_best_result()
print(best.config, best.metrics["mean_return_100"])
