"""Errors of a terminal's interface: one sentence for each gRPC status, for every transport."""

from __future__ import annotations

import grpc

from bentpipe.errors import BentpipeError

#: Largest answer that is read [bytes], gRPC's own default: a history of 12 hours has 0.8 MB.
MAX_ANSWER_BYTES = 4 * 2**20


class DishError(BentpipeError):
    """A terminal gave no valid answer; `kind` classifies the error."""

    exit_code = 2

    def __init__(self, kind: str, message: str) -> None:
        """`kind`: unreachable, not-a-dish, denied, unsupported, malformed or slow."""
        super().__init__(message)
        self.kind = kind


def status_error(host: str, code: grpc.StatusCode, details: str, timeout_s: float) -> DishError:
    """Return the error for a gRPC status with its details."""
    details = " ".join(details.split())[:200]
    if code == grpc.StatusCode.UNAVAILABLE:
        return unreachable_error(host)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return timeout_error(host, timeout_s)
    denied = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
    if code in denied or "Disabled due to policy" in details:  # as newer firmware refuses its location
        return DishError("denied", f"{host}: refused: {details or 'permission denied'}")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return DishError("unsupported", f"{host}: this firmware does not support the request: {details}")
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return too_large_error(host)
    return DishError("malformed", f"{host}: {code.name}: {details}")


def unreachable_error(host: str) -> DishError:
    """Return the error for a terminal that does not answer."""
    return DishError(
        "unreachable",
        f"{host}: no terminal answers; is it powered and this machine on its network? Behind a router of "
        "your own (bypass mode) that router needs a route to 192.168.100.1",
    )


def timeout_error(host: str, timeout_s: float) -> DishError:
    """Return the error for a timeout."""
    return DishError("slow", f"{host}: no answer within {timeout_s:g} s")


def too_large_error(host: str) -> DishError:
    """Return the error for an answer of more than `MAX_ANSWER_BYTES`."""
    return DishError("malformed", f"{host}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
