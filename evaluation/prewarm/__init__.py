"""Pre-warming: parked actors that are back before they are needed, and what that is worth."""
