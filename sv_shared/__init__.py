"""What every security-verifiers environment needs, and nothing else."""

__version__ = "0.1.0"
