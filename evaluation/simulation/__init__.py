"""How near ``artos simulate`` comes to what real runs take."""
