"""The bottlenecks that are looked for, one a file: what shows it, what to set, what that gains."""
