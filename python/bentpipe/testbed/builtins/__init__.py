"""The built-in experiments, programs that run in a run's sandbox: ``python -m bentpipe.testbed.builtins``.

Each reads its request, runs its tool, keeps the output of the tool as it is in ``raw/``, and writes a measured Run and
``builtin.json`` (`outcome.Outcome`). A failure of the network is a result: the exit code is 0, ``builtin.json`` has the
failure in ``error``, and what was measured until then is in the Run; without any row there is no ``run.json``. Only a
tool that could not run is an error: exit code 1 and one line.

To add one: its arguments in `bentpipe.testbed.schemas.builtins`, a file here with `client` (and `server`), a line in
`registry`.
"""
