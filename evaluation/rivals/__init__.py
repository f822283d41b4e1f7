"""The rivals: where they are installed, how they are driven, and one script per measurement.

The scripts run in the rival's own environment, so a module of this package may import nothing of
ARTOS unless it is the driver's side (``environments`` and ``process``).
"""
