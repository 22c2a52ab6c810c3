"""Runners: they run a program in a network of its own, with limits, and leave nothing behind (`base.Runner`)."""
