"""Versions of the database, one file each."""
