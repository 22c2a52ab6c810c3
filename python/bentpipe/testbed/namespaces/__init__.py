"""Namespaces of the kernel, for the runners and the kernel service. Only the standard library; no names of runs."""
