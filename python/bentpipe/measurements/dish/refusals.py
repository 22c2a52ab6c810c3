"""Why a terminal gives no answer: one sentence for each gRPC status, whatever carried it."""

from __future__ import annotations

import grpc

from bentpipe.errors import BentpipeError

#: Largest answer that is read [bytes], gRPC's own default: a history of 12 hours has 0.8 MB.
MAX_ANSWER_BYTES = 4 * 2**20


class DishError(BentpipeError):
    """Why a terminal gave no answer, in one sentence; `kind` says which sentence without its particulars."""

    exit_code = 2

    def __init__(self, kind: str, message: str) -> None:
        """`kind`: unreachable, not-a-dish, denied, unsupported, malformed or slow."""
        super().__init__(message)
        self.kind = kind


def refusal(host: str, code: grpc.StatusCode, details: str, timeout_s: float) -> DishError:
    """Return the error for a gRPC status with its details."""
    details = " ".join(details.split())[:200]
    if code == grpc.StatusCode.UNAVAILABLE:
        return unreachable(host)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return slow(host, timeout_s)
    denied = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
    if code in denied or "Disabled due to policy" in details:  # as newer firmware refuses its location
        return DishError("denied", f"{host}: refused: {details or 'permission denied'}")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return DishError("unsupported", f"{host}: this firmware does not answer that: {details}")
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return too_large(host)
    return DishError("malformed", f"{host}: {code.name}: {details}")


def unreachable(host: str) -> DishError:
    """Return the error for a terminal that is not there."""
    return DishError(
        "unreachable",
        f"{host}: no terminal answers; is it powered and this machine on its network? Behind a router of "
        "your own (bypass mode) that router needs a route to 192.168.100.1",
    )


def slow(host: str, timeout_s: float) -> DishError:
    """Return the error for an answer that does not come in time."""
    return DishError("slow", f"{host}: no answer within {timeout_s:g} s")


def too_large(host: str) -> DishError:
    """Return the error for an answer of more than `MAX_ANSWER_BYTES`."""
    return DishError("malformed", f"{host}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
