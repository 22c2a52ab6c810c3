"""Adaptive video: descriptions of videos, and the quality of experience of their players."""
