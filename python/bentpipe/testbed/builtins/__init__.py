"""The built-in experiments, programs that run in a run's sandbox: ``python -m bentpipe.testbed.builtins``.

Each reads its request, runs its tool, keeps the output of the tool as it is in ``raw/``, and writes a measured Run. A
failure of the network is a result; only a tool that could not run is an error. To add one: its arguments in
`bentpipe.testbed.schemas.builtins`, a file here with `client` (and `server`), a line in `registry`.
"""
