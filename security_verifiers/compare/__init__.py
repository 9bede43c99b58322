"""Runs beside each other: pairing, comparison, the regression gate, pinned baselines, ablations."""
