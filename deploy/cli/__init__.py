"""The ``artos`` command."""
