"""Run the built-in experiment that the request names, as this process's environment says."""

from __future__ import annotations

import sys

from bentpipe.errors import BentpipeError


def main() -> int:
    """Return the exit code: 0, or 1 with one line on standard error."""
    from bentpipe.testbed.builtins.outcome import FILE, NetworkFailureError, Outcome, one_line
    from bentpipe.testbed.builtins.registry import BUILTINS
    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import check_arguments

    try:
        context = Context.of_environment()
        name = context.request.builtin
        arguments = check_arguments(name, context.request.args)
        BUILTINS[name].load(context)
        context.wait()
        failure: str | None = None
        try:
            BUILTINS[name].client(arguments, context)
        except NetworkFailureError as error:
            failure = one_line(str(error))
            print(f"bentpipe: {failure}", file=sys.stderr)
        outcome = Outcome(
            builtin=name,
            args=arguments.to_dict(),
            server=context.request.server,
            error=failure,
            figures=context.figures,
        )
        (context.output / FILE).write_text(outcome.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if not any(context.raw.iterdir()):
            context.raw.rmdir()
    except BentpipeError as error:
        print(f"bentpipe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
