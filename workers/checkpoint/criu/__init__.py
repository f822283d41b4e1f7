"""CRIU: where it is, how it is asked, and what it says when it is not there."""
