"""What every benchmark is made of: contestants, reports, figures, and the registry of them all."""
