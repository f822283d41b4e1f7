"""Why a run is not faster: where its time went, what holds it up, and what to set."""
