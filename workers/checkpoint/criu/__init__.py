"""CRIU: finds it, sends it requests, and explains its failures or its absence."""
