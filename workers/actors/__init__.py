"""Actor processes: started, parked, brought back, accounted for (paper §3.3, §4.3)."""
