"""security-verifiers: measure and improve language models on executable security environments."""

__version__ = "0.1.0"
