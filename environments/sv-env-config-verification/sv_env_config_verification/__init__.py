"""E2: configuration verification, grounded in OPA, KubeLinter and Semgrep."""

__version__ = "0.1.0"
