"""Applications of flows: their records, and the syntax of ``race --app`` and of Experiment files.

``bulk``, ``transfers:1mb,every=2s``, ``paced:2mbit``, ``request:200bytes/100kb,n=50``, ``web:PAGE.har,http=2``,
``call:max=2.5mbit``, ``video:pensieve,policy=bola``, ``./mine.py:Mine``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.experiments import plugins
from bentpipe.experiments.flow_names import split_flow
from bentpipe.experiments.videos import Video, parse_video
from bentpipe.records import LARGEST, Items, Record
from bentpipe.scenarios.units import parse_rate_bps, parse_size_bytes, parse_time_ns

LEAST_BYTES = 24
"""Size of a message's header, and so of the smallest message."""

HTTP_VERSIONS: dict[str, Literal["1", "2", "3"]] = {"1": "1", "2": "2", "3": "3"}
"""Versions of HTTP."""

PACED_EVERY = "20ms"
"""Default time between the writes of a paced application: that of the frames of a call's audio."""

MessageSize = Annotated[int, Field(ge=0, le=LARGEST)]
"""At least `LEAST_BYTES` in a simulation; a flow of a program may have had less."""
Positive = Annotated[int, Field(ge=1, le=LARGEST)]


class TransfersApp(Record):
    """The sender makes transfers, each over a connection of its own."""

    sizes_bytes: Annotated[Items[MessageSize], Field(min_length=1)]
    """Sizes, used in turn."""
    count: Positive | None = None
    """Number of transfers; None: until the flow stops."""
    every_ns: Positive | None = None
    """Time between starts [ns]; None: each starts when the one before it is delivered."""
    poisson: bool = False
    """Whether `every_ns` is the mean of a Poisson process."""


class PacedApp(Record):
    """The sender writes messages at a constant rate."""

    write_bytes: MessageSize
    """Size of a message."""
    every_ns: Positive
    """Time between messages [ns]."""


class RequestApp(Record):
    """The receiver makes requests, one after the other, over one connection."""

    request_bytes: MessageSize
    """Size of a request."""
    response_bytes: MessageSize
    """Size of a response."""
    count: Positive | None = None
    """Number of requests; None: until the flow stops."""
    think_ns: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """Time that the sender takes to answer [ns]."""


class WebObject(Record):
    """An object of a page."""

    host: Annotated[int, Field(ge=0, lt=2**32)]
    """Number of its host."""
    request_bytes: MessageSize
    """Size of the request."""
    response_bytes: MessageSize
    """Size of the response."""
    after: Annotated[int | None, Field(ge=0)] = None
    """Number of the object that leads to it; None: the page itself."""
    compute_ns: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """Computation between the arrival of that object and the request [ns]."""


class WebApp(Record):
    """The receiver loads a page, each time over new connections."""

    objects: Annotated[Items[WebObject], Field(min_length=1)]
    """The page's objects."""
    http: Literal["1", "2", "3"]
    """Version of HTTP."""
    loads: Positive | None = None
    """Number of loads; None: until the flow stops."""
    pause_ns: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """Time between two loads [ns]."""


def check_call_rate(bps: int, where: str, name: str = "") -> None:
    """Check a rate of a call's video [bit/s]. Raises `UserError`; ``name``: what it says before the rate."""
    if not 30_000 <= bps <= 10**9:
        raise UserError(f"{name}{bps} bit/s", where=where, expected="30 kbit/s to 1 Gbit/s")


class CallApp(Record):
    """A video call over datagrams. The defaults are libwebrtc's for 720p, with the times that browsers took."""

    fps: Annotated[int, Field(ge=1, le=240)] = 30
    """Frames per second."""
    start_bps: Annotated[int, Field(ge=30_000, le=LARGEST)] = 300_000
    """Rate of the video at the start [bit/s]."""
    max_bps: Annotated[int, Field(ge=30_000, le=10**9)] = 2_500_000
    """Highest rate of the video [bit/s]."""
    both_ways: bool = True
    """Whether the receiver sends video, too."""
    holds_rtt: bool = True
    """Whether late frames may raise the jitter buffer's delay by an RTT, once three in a minute were retransmitted."""
    has_fec: bool = True
    """Whether repair packets follow the packets of a frame after losses."""
    encode_ns: Annotated[int, Field(ge=0, le=10**9)] = 5_000_000
    """Time from the capture of a frame until its packets are ready [ns]."""
    decode_ns: Annotated[int, Field(ge=0, le=10**9)] = 3_000_000
    """Time to decode a frame [ns]."""
    display_ns: Annotated[int, Field(ge=0, le=10**9)] = 22_000_000
    """Time from the decoder to the display [ns]."""


class PluginApp(Record):
    """An application in Python (`bentpipe.plugin.App`)."""

    name: str
    """File and class."""
    options: Mapping[str, float] = Field(default_factory=dict)
    """Values of its tunables."""


class Transfers(Record):
    """``{"transfers": {…}}``."""

    transfers: TransfersApp


class Paced(Record):
    """``{"paced": {…}}``."""

    paced: PacedApp


class Request(Record):
    """``{"request": {…}}``."""

    request: RequestApp


class Web(Record):
    """``{"web": {…}}``."""

    web: WebApp


class Call(Record):
    """``{"call": {…}}``."""

    call: CallApp


class Plugin(Record):
    """``{"plugin": {…}}``."""

    plugin: PluginApp


App = Literal["bulk"] | Transfers | Paced | Request | Web | Call | Video | Plugin
"""An application of a flow; ``"bulk"``: the sender always has data."""

KINDS = ("bulk", "transfers", "paced", "request", "web", "call", "video")
"""Built-in applications."""

EXPECTED = "bulk, transfers:SIZE, paced:RATE, request:SIZE/SIZE, web:PAGE.har, call, video:VIDEO or ./FILE.py:CLASS"


def parse_app(text: str, where: str = "app") -> App:
    """Parse an application; `where` names it in messages. Raises `UserError`.

    Example:
        >>> parse_app("request:200bytes/100kb,n=50").request.response_bytes
        100000
        >>> parse_app("transfers:1mb,every=2s").transfers.every_ns
        2000000000
    """
    name, rest = split_flow(text)
    if plugins.is_in_file(name):
        plugin = plugins.find_python_app(name)
        given = _options(rest or "", where)
        try:
            values = {key: plugins.tunable_value(plugin, key, value) for key, value in given.items()}
        except UserError as error:
            raise error.within(where) from None
        return Plugin(plugin=PluginApp(name=name, options=values))
    kind = name.lower()
    if kind not in KINDS:
        raise UserError(f"no application {shown(name)}{did_you_mean(kind, KINDS)}", where=where, expected=EXPECTED)
    if kind == "bulk":
        if rest is not None:
            raise UserError(shown(text), where=where, expected="bulk alone, as it takes nothing")
        return "bulk"
    if kind == "call":
        return _call(_options(rest or "", where), where)
    first, _, more = (rest or "").partition(",")
    options = _options(more, where)
    if not first:
        raise UserError(f"{shown(text)} has no size or rate", where=where, expected=EXPECTED)
    readers: dict[str, Callable[[str, dict[str, str], str], Transfers | Paced | Request | Web | Video]] = {
        "transfers": _transfers,
        "paced": _paced,
        "request": _request,
        "web": _web,
        "video": parse_video,
    }
    app = readers[kind](first, options, where)
    _refuse_rest(kind, options, where)
    return app


def _refuse_rest(kind: str, options: dict[str, str], where: str) -> None:
    if options:
        raise UserError(f"{kind} takes no {shown(next(iter(options)))}; see docs/reference/race.md", where=where)


def app_name(app: App) -> str:
    """Return the short name of an application: its kind, or its class."""
    if isinstance(app, str):
        return app
    if isinstance(app, Plugin):
        return app.plugin.name.rpartition(":")[2]
    return next(iter(app.to_dict()))


def _transfers(sizes: str, options: dict[str, str], where: str) -> Transfers:
    every, poisson = options.pop("every", None), options.pop("poisson", None)
    if every is not None and poisson is not None:
        raise UserError("transfers with every and poisson", where=where, expected="one of them")
    gap = every or poisson
    return Transfers(
        transfers=TransfersApp(
            sizes_bytes=tuple(_size(size, where) for size in sizes.split("+")),
            count=_count(options, where),
            every_ns=None if gap is None else parse_time_ns(gap, where),
            poisson=poisson is not None,
        )
    )


def _paced(rate: str, options: dict[str, str], where: str) -> Paced:
    every_ns = parse_time_ns(options.pop("every", PACED_EVERY), where)
    write_bytes = parse_rate_bps(rate, where) * every_ns // (8 * 10**9)
    if write_bytes < LEAST_BYTES:
        raise UserError(
            f"{shown(rate)} is {write_bytes} bytes each {every_ns / 1e6:g} ms",
            where=where,
            expected=f"at least {LEAST_BYTES} bytes",
            hint="a longer every",
        )
    return Paced(paced=PacedApp(write_bytes=write_bytes, every_ns=every_ns))


def _request(sizes: str, options: dict[str, str], where: str) -> Request:
    request, slash, response = sizes.partition("/")
    if not slash:
        raise UserError(f"request:{sizes}", where=where, expected="two sizes, for example request:200bytes/100kb")
    return Request(
        request=RequestApp(
            request_bytes=_size(request, where),
            response_bytes=_size(response, where),
            count=_count(options, where),
            think_ns=parse_time_ns(options.pop("think"), where) if "think" in options else 0,
        )
    )


PAUSE = "1s"
"""Default time between two loads of a page."""


def _web(file: str, options: dict[str, str], where: str) -> Web:
    from bentpipe.apps.web.read import read_page

    http = options.pop("http", "2")
    if http not in HTTP_VERSIONS:
        raise UserError(f"http is {shown(http)}", where=where, expected="1, 2 or 3")
    page = read_page(file)
    objects = tuple(
        WebObject(
            host=each.host,
            request_bytes=each.request_bytes,
            response_bytes=each.response_bytes,
            after=each.after,
            compute_ns=each.compute_ns,
        )
        for each in page.objects
    )
    return Web(
        web=WebApp(
            objects=objects,
            http=HTTP_VERSIONS[http],
            loads=_count(options, where),
            pause_ns=parse_time_ns(options.pop("pause", PAUSE), where),
        )
    )


def _call(options: dict[str, str], where: str) -> Call:
    rates = {f"{name}_bps": parse_rate_bps(options.pop(name), where) for name in ("start", "max") if name in options}
    defaults = (("ways", "2"), ("fps", "30"), ("hold", "rtt"), ("fec", "on"))
    ways, fps, hold, fec = (options.pop(*each) for each in defaults)
    _refuse_rest("call", options, where)
    if ways not in ("1", "2"):
        raise UserError(f"ways is {shown(ways)}", where=where, expected="1 (from the sender alone) or 2")
    if hold not in ("jitter", "rtt"):
        raise UserError(
            f"hold is {shown(hold)}", where=where, expected="rtt, or jitter without an RTT for retransmissions"
        )
    if fec not in ("on", "off"):
        raise UserError(f"fec is {shown(fec)}", where=where, expected="on, or off without repair packets")
    if not (fps.isascii() and fps.isdigit() and 1 <= int(fps[:4]) <= 240):
        raise UserError(f"fps is {shown(fps)}", where=where, expected="a whole number from 1 to 240")
    for name, value in rates.items():
        check_call_rate(value, where, f"{name.removesuffix('_bps')} is ")
    call = CallApp(**rates, fps=int(fps[:4]), both_ways=ways == "2", holds_rtt=hold == "rtt", has_fec=fec == "on")
    return Call(call=call)


def _size(text: str, where: str) -> int:
    size = parse_size_bytes(text, where)
    if size < LEAST_BYTES:
        raise UserError(shown(text), where=where, expected=f"at least {LEAST_BYTES} bytes, the header of a message")
    return size


def _count(options: dict[str, str], where: str) -> int | None:
    text = options.pop("n", None)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise UserError(f"n is {shown(text)}", where=where, expected="a whole number from 1 on")
    return int(text)


def _options(text: str, where: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(",") if text else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value) or key in options:
            raise UserError(shown(part), where=where, expected="name=value, each name once")
        options[key] = value
    return options
