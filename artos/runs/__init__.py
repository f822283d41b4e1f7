"""A registered run: its plan, its memory, its folder and its orders."""
