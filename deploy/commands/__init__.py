"""Commands of ``artos``, a module each kind: what they parse, call and print."""
