"""The ways to start ARTOS: the ``artos`` command, one machine, one process."""
