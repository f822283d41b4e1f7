"""A cluster on one machine: network namespaces, and links of a given speed between them."""
