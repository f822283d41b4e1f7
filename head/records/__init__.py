"""What a run writes down: its folder, progress, episodes, checkpoint and learning curve."""
