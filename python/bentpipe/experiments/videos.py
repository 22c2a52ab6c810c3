"""Video players as applications of flows: their records, and ``video:…`` of ``race --app``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.records import LARGEST, Items, Record
from bentpipe.scenarios.units import parse_time_ns

if TYPE_CHECKING:
    from bentpipe.apps.video.description import VideoDescription

PolicyName = Literal["robust-mpc", "mpc", "mpc-forecast", "mpc-oracle", "buffer", "bola"]
"""How a player chooses qualities."""

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
"""All of them."""

SEEING: tuple[PolicyName, ...] = ("mpc-forecast", "mpc-oracle")
"""Those that use rates to come."""

BUFFER = "12s"
"""Default buffer cap: that of a live stream."""

Positive = Annotated[int, Field(ge=1, le=LARGEST)]
NotNegative = Annotated[float, Field(ge=0)]


class Outlook(Record):
    """Rates of a path to come: quantiles of mean rates, each from the moment of a forecast on."""

    made_s: Annotated[Items[NotNegative], Field(min_length=1)]
    """When each forecast is made, rising [s since the Run's begin]. It holds until the next."""
    horizons_s: Annotated[Items[NotNegative], Field(min_length=1)]
    """Ends of the horizons, rising [s since the forecast]."""
    levels: Annotated[Items[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1)]
    """Levels of the quantiles, rising."""
    rates_bps: Items[NotNegative]
    """Rates [bit/s]: for each forecast, for each horizon, for each level."""


class VideoApp(Record):
    """The receiver plays a video, chunk by chunk over one connection."""

    rates_bps: Annotated[Items[Positive], Field(min_length=1, max_length=16)]
    """Nominal bitrate of each quality, rising [bit/s]."""
    chunk_bytes: Annotated[Items[Items[Positive]], Field(min_length=1)]
    """Sizes of the chunks, for each quality."""
    chunk_ns: Positive
    """Playing time of a chunk [ns]."""
    buffer_ns: Positive
    """Buffer above which the player waits before it requests a chunk [ns]."""
    policy: PolicyName
    """How it chooses qualities."""
    outlook: Outlook | None = None
    """Rates to come, of `mpc-forecast` and `mpc-oracle`."""


class Video(Record):
    """``{"video": {…}}``."""

    video: VideoApp


def check_policy(name: str, where: str = "policy") -> PolicyName:
    """Return the policy of this name. Raises `UserError`."""
    for policy in POLICIES:
        if policy == name:
            return policy
    raise UserError(f"no policy {shown(name)}{did_you_mean(name, POLICIES)}", where=where, expected=", ".join(POLICIES))


def player(
    video: VideoDescription, policy: PolicyName, buffer_ns: int, outlook: Outlook | None = None, where: str = "buffer"
) -> Video:
    """Return a player of a video. Raises `UserError`: the buffer is shorter than a chunk."""
    chunk_ns = round(video.chunk_s * 1e9)
    if buffer_ns < chunk_ns:
        raise UserError(f"{buffer_ns / 1e9:g}s", where=where, expected=f"at least a chunk, {video.chunk_s:g}s")
    return Video(
        video=VideoApp(
            rates_bps=video.rates_bps,
            chunk_bytes=video.chunk_bytes,
            chunk_ns=chunk_ns,
            buffer_ns=buffer_ns,
            policy=policy,
            outlook=outlook,
        )
    )


def parse_video(name: str, options: dict[str, str], where: str) -> Video:
    """Parse ``video:NAME,policy=…,buffer=…``; takes its options out of `options`. Raises `UserError`."""
    from bentpipe.apps.video.read import read_video

    policy = check_policy(options.pop("policy", "robust-mpc"), where)
    if policy in SEEING:
        raise UserError(
            f"{policy} needs the rates to come", where=where, expected="another policy", hint="bentpipe video race"
        )
    return player(read_video(name), policy, parse_time_ns(options.pop("buffer", BUFFER), where), where=where)
