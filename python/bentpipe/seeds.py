"""What a seed may be."""

LARGEST_SEED = 2**64 - 1
"""The core's generators take 64 bits."""
