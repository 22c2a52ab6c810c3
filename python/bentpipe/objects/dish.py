"""A Starlink user terminal: watch, record or simulate one. Needs the extra ``bentpipe[dish]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.measurements.dish.extra import require_extra
from bentpipe.objects import arguments
from bentpipe.objects.profile import profile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe.measurements.dish.display import Observation
    from bentpipe.measurements.dish.following import Change
    from bentpipe.measurements.dish.simulation.server import Server
    from bentpipe.objects.arguments import DurationLike, FileLike, TimeLike
    from bentpipe.objects.profile import Profile

HOST = "192.168.100.1:9200"
"""The address of every terminal."""


class Dish:
    """A user terminal at an address. Nothing is sent before a method is called.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.make(site="louvain", to="london", duration=30, loss="idle")
        >>> with bp.Dish.simulate(path, port=0, web_port=0) as server:
        ...     dish = bp.Dish(f"127.0.0.1:{server.port}")
        ...     seen = next(dish.watch(every=1, duration=5))
        >>> seen.to_dict()["state"]
        'CONNECTED'
    """

    def __init__(self, host: str = HOST) -> None:
        """Take the address: HOST, HOST:PORT, or http://HOST[:PORT] for gRPC-Web."""
        self.host = arguments.text(host, "host")

    def watch(
        self,
        *,
        every: DurationLike = 1.0,
        duration: DurationLike | None = None,
        elements: FileLike | None = None,
        site: str | None = None,
        on_change: Callable[[str], object] | None = None,
    ) -> Iterator[Observation]:
        """Yield the terminal's state at each interval: latency, drops, throughput, alignment, next slot edge.

        A terminal that does not answer is waited for.

        Args:
            every: Interval between samples.
            duration: Duration; default: for ever.
            elements: Orbital elements, for the serving satellite.
            site: Place of the terminal, if it does not report one; for `elements`.
            on_change: Called with each change of state, one line.

        Raises:
            UserError: The extra is not installed, or an argument is wrong.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.make(site="louvain", to="london", duration=30, loss="idle")
            >>> with bp.Dish.simulate(path, port=0, web_port=0) as server:
            ...     dish = bp.Dish(f"127.0.0.1:{server.port}")
            ...     states = [seen.to_dict()["state"] for seen in dish.watch(every=0.1, duration=0.3)]
            >>> states[0]
            'CONNECTED'
        """
        require_extra()
        from bentpipe.measurements.dish.client import DishClient
        from bentpipe.measurements.dish.clocks import WallClock
        from bentpipe.measurements.dish.display import Watcher, place_of
        from bentpipe.measurements.dish.following import Follower

        client, clock, serving = DishClient(self.host), WallClock(), None
        if elements is not None:
            from bentpipe.measurements.serving.live import LiveEstimator
            from bentpipe.orbits.elements import load_satellites

            satellites = load_satellites(arguments.file(elements, "elements"), None, clock.now_unix_ns())
            serving = LiveEstimator(satellites, place_of(client, arguments.optional_text(site, "site")))
        watcher = Watcher(client, serving)
        follower = Follower(
            client,
            clock,
            arguments.seconds(every, "every"),
            _texts(on_change),
        )
        until_s = None if duration is None else arguments.seconds(duration, "duration")
        return (watcher.observe(sample) for sample in follower.samples(until_s=until_s))

    def record(
        self,
        out: FileLike,
        *,
        every: DurationLike = 1.0,
        map_every: DurationLike = 15.0,
        duration: DurationLike | None = None,
        on_change: Callable[[str], object] | None = None,
    ) -> int:
        """Record samples and obstruction maps into a folder; `bentpipe.read` reads it. Return the number of samples.

        Args:
            out: Folder of the recording; an existing one is continued.
            every: Interval between samples.
            map_every: Interval between obstruction maps; 0: none.
            duration: Duration; default: until Ctrl-C.
            on_change: Called with each change of state, one line.

        Raises:
            UserError: The extra is not installed, or an argument is wrong.
            StoreError: The disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.make(site="louvain", to="london", duration=30, loss="idle")
            >>> with bp.Dish.simulate(path, port=0, web_port=0) as server:
            ...     dish = bp.Dish(f"127.0.0.1:{server.port}")
            ...     samples = dish.record("out/dish", duration=1)
            >>> bp.read("out/dish").tables[0], samples > 0
            ('dish_samples', True)
        """
        require_extra()
        from bentpipe.measurements.dish.client import DishClient
        from bentpipe.measurements.dish.clocks import WallClock
        from bentpipe.measurements.dish.recording.recorder import Recorder

        recorder = Recorder(
            DishClient(self.host),
            arguments.file(out, "out"),
            WallClock(),
            every_s=arguments.seconds(every, "every"),
            map_every_s=arguments.seconds(map_every, "map_every"),
            on_change=_texts(on_change),
        )
        return recorder.run(None if duration is None else arguments.seconds(duration, "duration"))

    @staticmethod
    def simulate(
        profile: Profile | FileLike | None = None,
        *,
        port: int = 9200,
        web_port: int | None = None,
        address: str = "127.0.0.1",
        firmware: int = 2026,
        start: TimeLike | None = None,
        uptime: DurationLike = 3600,
        load: float = 0.05,
        speed: float = 1.0,
        location: bool = False,
    ) -> Server:
        """Start a simulated terminal for Starlink tools: the same gRPC service, with values from a Profile.

        Args:
            profile: Profile of the path behind the terminal; default: a generated one.
            port: Port of gRPC; 0: a free one.
            web_port: Port of gRPC-Web; 0: a free one; default: `port` + 1.
            address: Address to listen on.
            firmware: Firmware year, which decides the fields served.
            start: Start of the Profile; default: now, aligned to slots.
            uptime: Uptime at the start.
            load: Share of the capacity that its users take, 0 to 1.
            speed: Speed of its clock; 1: real time.
            location: Report its location.

        Returns:
            The running server: `port`, `web_port`, `stop()`, `wait()`; it stops at the end of a ``with`` block.

        Raises:
            UserError: The extra is not installed, a port is taken, or an argument is wrong.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.make(site="louvain", to="london", duration=30, loss="idle")
            >>> with bp.Dish.simulate(path, port=0, web_port=0) as server:
            ...     server.port > 0
            True
        """
        require_extra()
        from bentpipe.measurements.dish.clocks import FastClock, WallClock
        from bentpipe.measurements.dish.simulation.environment import DishEnvironment, default_profile
        from bentpipe.measurements.dish.simulation.server import serve
        from bentpipe.measurements.dish.simulation.terminal import Terminal

        rate = arguments.number(speed, "speed")
        clock = WallClock() if rate == 1 else FastClock(rate)
        if profile is None:
            path = default_profile(clock.now_unix_ns(), lambda _: None)
        else:
            path = profile_of(profile, "profile").native
        terminal = Terminal(
            DishEnvironment(path, arguments.number(load, "load")),
            clock,
            firmware=arguments.integer(firmware, "firmware"),
            start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
            uptime_s=int(arguments.seconds(uptime, "uptime")),
            allow_location=location,
        )
        ports = arguments.integer(port, "port"), None if web_port is None else arguments.integer(web_port, "web_port")
        return serve(terminal, arguments.text(address, "address"), *ports)

    def __repr__(self) -> str:
        """Return one line with the address."""
        return f"<Dish at {self.host}>"


def _texts(on_change: Callable[[str], object] | None) -> Callable[[Change], None]:
    tell = arguments.callback(on_change, "on_change")
    return lambda change: tell(change.text)
