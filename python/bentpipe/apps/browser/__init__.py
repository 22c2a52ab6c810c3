"""A real browser as an application: where it is, how it is started, and the pages that it shows."""
