"""The dashboard: how soon a long run is shown, and what many who look cost the head."""
