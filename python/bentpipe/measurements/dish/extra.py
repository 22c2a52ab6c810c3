"""Whether what speaks with a terminal is installed."""

from __future__ import annotations

import importlib

from bentpipe.errors import UserError


def require_extra() -> None:
    """Says what to install, before an import further on says what is missing.

    Raises:
        UserError: The extra ``bentpipe[dish]`` is not installed.
    """
    for module in ("grpc", "grpc_reflection", "google.protobuf"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            raise UserError(
                f"a dish is spoken with by {module}, which is not installed: pip install 'bentpipe[dish]'"
            ) from None
