"""The decisions of a run: who samples, who learns, from which rows, and who replaces whom."""
