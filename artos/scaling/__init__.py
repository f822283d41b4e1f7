"""How many actors take part in a run and how they live on their node: plain data of a plan."""
