"""The machine below: its CPUs, the slots on them, and processes pinned to those."""
