"""``artos dashboard``: a page about runs and clusters, which reads what is written anyway.

Everything that the page shows is an answer in JSON first. Nothing is kept from one answer to the
next that could not be read again, and nothing of a run is executed or changed.
"""
