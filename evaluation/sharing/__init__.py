"""Several workloads on one machine: at once on the same slots and device, or in turn."""
