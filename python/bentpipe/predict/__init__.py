"""Predictors of latency and throughput from past measurements.

- `features`: the features of a signal, over a table or sample by sample.
"""
