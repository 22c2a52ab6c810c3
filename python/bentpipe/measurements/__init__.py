"""Measurements: reading what tools print, probing, the dish, the serving satellite, measured Runs."""
