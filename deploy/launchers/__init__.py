"""Clusters on the engines that people have: an engine owns machines, ARTOS owns actors."""
