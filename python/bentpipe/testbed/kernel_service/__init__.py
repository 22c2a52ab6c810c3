"""The kernel service: changes a listed set of kernel settings in the network namespaces of runs, and nothing else.

It is a process with rights that the agent does not need. The agent speaks to it over a Unix socket in lines of JSON and
hands it a descriptor of each run's namespace. Every call is checked against a fixed vocabulary and audited.
"""
