"""The dashboard's pages: templates, static files and functions that turn records into a page's rows.

Nothing here reads a database or a request: the orchestrator's ``routers/pages.py`` does, and gives records.
"""
