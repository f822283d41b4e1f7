"""The records of a run: its folder, progress, episodes, checkpoint and learning curve."""
