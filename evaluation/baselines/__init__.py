"""The baselines: environments to install them in, and how their processes are run."""
