"""What a workload is made of, as plain data: keys, settings, members, numbers."""
