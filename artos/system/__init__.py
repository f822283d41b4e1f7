"""What every process of ours needs of the operating system: children, signals, files, memory."""
