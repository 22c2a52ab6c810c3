"""The whole testbed on one machine: ``make testbed``.

``supervising`` starts the orchestrator, and in a network namespace ``internet``, which holds the server node and joins
the emulated paths of two homes. In each home (``home``) run a simulated terminal, a node's agent and a household
that uses the link now and then. ``uplink`` connects the far end of a path to the internet. ``tour`` has the
experiments that a newcomer sees. Nothing leaves the machine, and only the orchestrator is on its network: on the
loopback.

::

    home attic ── emulated path ── uplink ──┐
                                             ├── internet: server node, way to the orchestrator
    home barn  ── emulated path ── uplink ──┘
"""
