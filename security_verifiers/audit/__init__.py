"""Checking an environment's claims about its reward before anyone trains or scores on it."""
