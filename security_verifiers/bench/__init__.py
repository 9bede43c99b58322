"""How fast it is, measured beside the bare engine in the same run."""
