"""What the command can do, from Python: ``artos.run``, ``artos.Cluster``, and sweeps."""
