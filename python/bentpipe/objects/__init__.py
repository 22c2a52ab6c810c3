"""The Python objects of `bentpipe`: everything that the command line does, typed, in a few lines.

`Profile` (a path) and `Network` (several) go into an `Experiment` (flows, queues, seeds). It makes a `RunSet` of Runs,
which summarises, draws, reports, and compares (`Comparison`). A `Measurement` has an analysis per method, and makes
Profiles. Arguments are checked here: a wrong one is a `UserError` of one line.
"""
