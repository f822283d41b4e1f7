"""How ARTOS is started: the ``artos`` command, one machine, one process (floor 4 of the house)."""
