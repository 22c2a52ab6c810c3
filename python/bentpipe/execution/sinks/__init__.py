"""Sinks of the engine: a folder with complete Runs, a table of results, or this process's memory."""
