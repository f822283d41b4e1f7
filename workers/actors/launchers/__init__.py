"""How processes of actors come to be: as clones of an image, as forks, or from nothing."""
