"""How ARTOS is started: the ``artos`` command, one machine, one process."""
