"""Estimators: arrays in, numbers out; numpy and scipy only, no input or output.

What the data do not define (a rate without items, a ranking of one class, an interval from one cluster) is
None, never 0 and never NaN. A mean of nothing, and malformed arrays (wrong shape, not finite), are a caller's
defect and raise ValueError.
"""
