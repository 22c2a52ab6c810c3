"""``python -m bentpipe``: the command line."""

from bentpipe.cli.main import app

app()
