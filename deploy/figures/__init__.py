"""Figures and reports of runs, made from their folders."""
