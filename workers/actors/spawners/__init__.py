"""The ways to make actor processes: clones of an image, forks, or starts from scratch."""
