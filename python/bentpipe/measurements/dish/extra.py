"""Check that the packages of the extra ``bentpipe[dish]`` are installed."""

from __future__ import annotations

import importlib

from bentpipe.errors import UserError


def require_extra() -> None:
    """Check that gRPC and protobuf are installed.

    Raises:
        UserError: The extra ``bentpipe[dish]`` is not installed.
    """
    for module in ("grpc", "grpc_reflection", "google.protobuf"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            raise UserError(f"a dish needs {module}, which is not installed: pip install 'bentpipe[dish]'") from None
