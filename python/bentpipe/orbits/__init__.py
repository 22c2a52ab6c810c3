"""Satellites: elements, look angles, the serving schedule and routes between places."""
