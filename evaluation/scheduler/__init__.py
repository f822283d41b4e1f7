"""How fast it is decided who runs next."""
