"""Clusters on one machine: hosts and links out of namespaces; a real Slurm, sshd and Ray."""
