"""Signals: named numbers with times, from feeds; a board merges them and evaluates triggers.

- `catalogue`: every signal with its unit, its meaning and its plausible range.
- `feed`: the interface of a feed. `dish`, `ping`, `serving`, `weather`, `replay`: the feeds.
- `board`: merges feeds, evaluates the armed triggers.
- `recordings`, `dry_run`: when would a trigger have fired on a recording?
"""
