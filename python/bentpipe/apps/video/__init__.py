"""Adaptive video: descriptions of videos, their media, and the quality of experience of their players."""
