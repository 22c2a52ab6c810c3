"""Triggers: conditions over live signals, in CEL (Common Expression Language, cel.dev) with windows.

``latency_ms > 2 * mean(latency_ms, '5s')`` fires when a window's mean latency is above twice that of the five seconds
before it. The package knows nothing of terminals or tests: it takes named numbers with times.

- `expression`: parses, checks and compiles an expression.
- `windows`: closed windows of each signal, and the functions over them.
- `trigger`: fires on rising edges, after a number of windows, with a pause.
"""
