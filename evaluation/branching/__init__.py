"""Measures how near to what the machine can compute at all PPO on Pong comes."""
