"""A study with Optuna: it proposes settings, and ends runs early that do worse than others did."""

import optuna

import artos

STEPS = 40_000


def objective(trial: optuna.Trial) -> float:
    """The mean return of a run with the settings of a trial."""

    def watch(status: artos.Status) -> None:
        if status.mean_return_100 is not None:
            trial.report(status.mean_return_100, status.steps)
            if trial.should_prune():
                raise optuna.TrialPruned

    result = artos.run(
        "ppo",
        env="CartPole-v1",
        total_steps=STEPS,
        actors=2,
        run_dir=f"study/{trial.number}",
        on_progress=watch,
        lr=trial.suggest_float("lr", 1e-4, 1e-2, log=True),
        gamma=trial.suggest_float("gamma", 0.9, 0.999),
    )
    return result.mean_return_100 or 0.0


study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner())
study.optimize(objective, n_trials=8)
print(study.best_params, study.best_value)
