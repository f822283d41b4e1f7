"""What a cluster would do with given workloads, on a simulated clock: ``artos simulate``."""
