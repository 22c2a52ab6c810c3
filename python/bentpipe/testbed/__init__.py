"""The testbed: experiments on nodes behind terminals, by calendar or by trigger.

An orchestrator decides; agents on nodes dial out to it, keep 48 hours of calendar and act alone. Both import
`bentpipe.testbed.schemas` and nothing of each other. Design: ``docs/design/021-testbed.md``.
"""
