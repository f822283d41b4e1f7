"""What ours is compared with: environments to install it in, and how its processes are driven."""
