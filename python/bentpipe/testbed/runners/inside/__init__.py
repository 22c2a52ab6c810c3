"""The processes between the agent and a program: they enter the namespaces, wait at the gate, and watch the limits.

They load nothing outside the standard library, so that they start within a few tens of milliseconds.
"""
