"""Leases of the CPU slots and devices of one machine."""
