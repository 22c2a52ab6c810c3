"""A real browser as an application: where it is, how it is started, and the pages and videos that it shows."""
