"""Decisions: each module one subject; they take an `Orchestrator` and know nothing of HTTP."""
