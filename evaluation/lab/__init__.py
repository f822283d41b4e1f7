"""Clusters on one machine: hosts and links out of namespaces; real Slurm, sshd, Ray and podman."""
