"""Run the built-in experiment that the request names, as this process's environment says."""

from __future__ import annotations

import sys

from bentpipe.errors import BentpipeError


def main() -> int:
    """Return the exit code: 0, or 1 with one line on standard error."""
    from bentpipe.testbed.builtins.registry import BUILTINS
    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import check_arguments

    try:
        context = Context.of_environment()
        name = context.request.builtin
        arguments = check_arguments(name, context.request.args)
        BUILTINS[name].load()
        context.wait()
        BUILTINS[name].client(arguments, context)
    except BentpipeError as error:
        print(f"bentpipe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
