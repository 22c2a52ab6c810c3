"""The Profile: a time-varying path between two hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bentpipe import _native
from bentpipe.errors import UserError, shown
from bentpipe.objects import arguments
from bentpipe.objects.profile_view import DIRECTIONS, ProfileView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bentpipe.objects.arguments import DurationLike, FileLike, TimeLike
    from bentpipe.objects.measured_profile import Silence, Times
    from bentpipe.objects.program import Program
    from bentpipe.profiles.measured.make import Measured
    from bentpipe.profiles.table import Direction
    from bentpipe.runs.rows import Row
    from bentpipe.scenarios.places import PlaceLike

    OnProgress = Callable[[float], object]


class Profile(ProfileView):
    """A path over time: hops with delay, capacity, loss, queues and handovers in both directions.

    Make one with `make`, `preset` or `measured`, or read one with `read`. It never changes; the same arguments give the
    same Profile.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.make(site="melbourne", to="sydney", start="2026-05-10T09:00Z", duration=30, seed=1)
        >>> path.name, path.duration_s
        ('melbourne-sydney', 30.0)
    """

    __slots__ = ()

    @classmethod
    def make(
        cls,
        *,
        site: PlaceLike | None = None,
        to: PlaceLike,
        start: TimeLike | None = None,
        duration: DurationLike = 300.0,
        elements: FileLike | None = None,
        constellation: str | None = None,
        gateways: FileLike | None = None,
        policy: str | None = None,
        isl: str | None = None,
        track: FileLike | None = None,
        loss: str | None = None,
        seed: int = 0,
        name: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Profile:
        """Compute the path from a terminal behind a constellation to a server.

        Args:
            site: The terminal: a name of `bentpipe.sites`, ``(lat, lon)`` [deg], ``(lat, lon, alt_m)``, or the same as
                text. None with `track`.
            to: The server, likewise.
            start: Start; default: 2026-05-10T09:00:00Z, or the first point of `track`. Needed with `elements`.
            duration: Duration, above 0 and at most 31 days.
            elements: A file of orbital elements: TLE or OMM, plain or gzipped.
            constellation: A name of `bentpipe.constellations`; default: starlink-gen1. Not with `elements`.
            gateways: A gateway list (TOML, ``docs/reference/scenarios.md``); default: Starlink's of 2024.
            policy: A name of `bentpipe.policies`, which selects the satellite of each slot; default: starlink-like.
            isl: Inter-satellite links: ``auto`` (the default) where no satellite above the terminal sees a gateway,
                ``never``, or ``always``, wherever they shorten the path.
            track: Positions of a moving terminal: a CSV file with ``time,lat,lon[,alt]``.
            loss: Loss environment, of `bentpipe.losses`; default: ``busy``, for a path that a flow fills.
            seed: Seed of all random processes, 0 to 2^64 - 1.
            name: The Profile's name; default: ``SITE-TO``.
            on_progress: Called with the share done, 0 to 1.

        Warns:
            UserWarning: Elements are days old, the terminal has no satellite for a time, no route to the server is
                published, or the constellation is not Starlink.

        Raises:
            UserError: An argument of a wrong type or out of range, an unknown name, or an unreadable file.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.make(site=(50.67, 4.62), to="london", duration="15s").duration_s
            15.0
        """
        from bentpipe.profiles.make import make_profile

        made = make_profile(
            site,
            to,
            start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
            duration_s=arguments.seconds(duration, "duration"),
            elements=None if elements is None else arguments.file(elements, "elements"),
            constellation=arguments.optional_text(constellation, "constellation"),
            gateways=None if gateways is None else arguments.file(gateways, "gateways"),
            policy=arguments.optional_text(policy, "policy"),
            isl=arguments.optional_text(isl, "isl"),
            track=None if track is None else arguments.file(track, "track"),
            loss=arguments.optional_text(loss, "loss"),
            seed=arguments.integer(seed, "seed"),
            name=arguments.optional_text(name, "name"),
            on_progress=arguments.callback(on_progress, "on_progress"),
        )
        return cls(made)

    @classmethod
    def preset(
        cls,
        preset: str,
        *,
        duration: DurationLike = 300.0,
        start: TimeLike | None = None,
        seed: int = 0,
        name: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Profile:
        """Make a path by its name: a static one, or a published satellite service.

        Args:
            preset: ``NAME`` or ``NAME:key=value,…`` of `bentpipe.presets`.
            duration: Duration, above 0 and at most 31 days.
            start: Start; default: that of the service, or 2026-05-10T09:00:00Z.
            seed: Seed of all random processes; a static path has none.
            name: The Profile's name; default: the preset with its parameters.
            on_progress: Called with the share done, 0 to 1.

        Raises:
            UserError: An unknown preset or parameter, or a value out of range.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.preset("dumbbell:rate=100mbit,rtt=40ms", duration=10).summary()["rtt_ms"]["median"]
            40.0
        """
        from bentpipe.profiles.presets import preset_profile

        made = preset_profile(
            arguments.text(preset, "preset", "a name of bentpipe.presets()"),
            arguments.seconds(duration, "duration"),
            start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
            seed=arguments.integer(seed, "seed"),
            name=arguments.optional_text(name, "name"),
            on_progress=arguments.callback(on_progress, "on_progress"),
        )
        return cls(made)

    @classmethod
    def measured(
        cls,
        log: FileLike,
        *,
        site: str | None = None,
        target: str | None = None,
        kind: str | None = None,
        capacity: str | Sequence[str] = (),
        queue: str = "1000packets",
        split: float = 0.5,
        silent: Silence = "gap",
        times: Times | None = None,
        name: str | None = None,
    ) -> Profile:
        """Make a Profile from measured probes: delay, slots, loss and gaps (``docs/reference/profile-from.md``).

        Args:
            log: A measured Run, a Parquet table of pings, or a log that `bentpipe.read` reads.
            site: Only probes from this site; likewise `target` and `kind` (icmp, tcp, udp).
            target: See `site`.
            kind: See `site`.
            capacity: ``[up=|down=]`` and a rate (``100mbit``), JSON of iperf3 -J, a packet-delivery trace or a Profile;
                several in a list. Default: the Run's own speed tests, else no limit.
            queue: Queue limit at the capacity, which pings do not measure: ``1000packets``, ``64kb`` or ``100ms``.
            split: Share of an RTT that is uplink delay, 0 to 1, where one-way delays were not measured.
            silent: Meaning of intervals without probes: ``gap``, or ``lost`` (the prober logged replies only).
            times: Whether timestamps are send times (``probe``) or reply times (``reply``); default: detected.
            name: The Profile's name; default: site and target.

        Returns:
            The Profile. Its `notes` say what was assumed, and where a ping over it differs from the measured one;
            `agreement` has both.

        Raises:
            UserError: The log is unreadable, has no or several series of probes, or a value is out of range.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.measured("ping.txt", capacity="down=100mbit").name
            'here → 192.0.2.1'
        """
        from bentpipe.measurements.profile import profile_from
        from bentpipe.objects.measured_profile import profile_options

        options = profile_options(
            site=site,
            target=target,
            kind=kind,
            capacity=capacity,
            queue=queue,
            split=split,
            silent=silent,
            times=times,
            name=name,
        )
        return cls.of_measured(profile_from(arguments.file(log, "log"), options))

    @classmethod
    def of_measured(cls, made: Measured) -> Profile:
        """Wrap a Profile of `bentpipe.profiles.measured`, with its notes and the agreement of the two pings."""
        from bentpipe.profiles.measured.agreement import agreement, disagreement

        rows = agreement(made)
        return cls(made.profile, notes=[*made.notes, *disagreement(rows)], agreement=rows)

    @classmethod
    def read(
        cls,
        *files: FileLike,
        format: str | None = None,  # noqa: A002 - the word for it
        delay: DurationLike | None = None,
        queue: str | None = None,
        direction: Direction | None = None,
        bin: DurationLike | None = None,  # noqa: A002 - as the command line has it
        start: TimeLike | None = None,
        name: str | None = None,
    ) -> Profile:
        """Read a Profile from its file, or from another tool's files.

        Args:
            files: One Profile (Parquet), or with `format` the files of that format.
            format: A format of ``docs/reference/converters.md``: csv, hypatia, iperf3, leoreplayer, mahimahi, netem or
                starrynet; default: a Profile. The other arguments belong to it.
            delay: One-way delay of both directions, for files without delays.
            queue: Queue limit, which the files do not have: ``1000packets`` (the default), ``64kb`` or ``100ms``.
            direction: Direction of a single trace; default: down.
            bin: Width of the bins in which a packet-delivery trace's capacity is counted; default: 0.1 s.
            start: Start, for files without one.
            name: The Profile's name; default: the file's.

        Raises:
            UserError: A file is unreadable or damaged, or an argument is wrong.

        Example:
            >>> import bentpipe as bp
            >>> files = bp.Profile.preset("dumbbell", duration=10).write("D.parquet")
            >>> bp.Profile.read("D.parquet").duration_s
            10.0
        """
        from bentpipe.profiles.build import DEFAULT_QUEUE
        from bentpipe.profiles.convert import read_as
        from bentpipe.profiles.convert.reading import ReadOptions
        from bentpipe.profiles.parquet import read_profile
        from bentpipe.scenarios.units import parse_queue

        paths = [arguments.file(each, "files") for each in files]
        if format is None:
            if len(paths) != 1:
                raise UserError(
                    f"{len(paths)} given", where="files", expected="one", hint="format= for another tool's files"
                )
            _refuse_without_format(delay=delay, queue=queue, direction=direction, bin=bin, start=start, name=name)
            return cls(read_profile(paths[0]))
        converted = read_as(
            arguments.text(format, "format"),
            paths,
            ReadOptions(
                name=arguments.optional_text(name, "name"),
                start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
                direction=arguments.choice(
                    ReadOptions.direction if direction is None else direction, "direction", DIRECTIONS
                ),
                bin_s=ReadOptions.bin_s if bin is None else arguments.seconds(bin, "bin"),
                delay_s=None if delay is None else arguments.seconds(delay, "delay"),
                queue=parse_queue(DEFAULT_QUEUE if queue is None else arguments.text(queue, "queue"), "queue"),
            ),
        )
        return cls(converted.profile, notes=converted.notes)

    def write(
        self,
        file: FileLike,
        *,
        format: str | None = None,  # noqa: A002 - the word for it
        step: DurationLike | None = None,
    ) -> list[Path]:
        """Write the Profile to one Parquet file, or in another tool's format; return the files.

        Args:
            file: The file, or the prefix of several. It is replaced in one step.
            format: A format of ``docs/reference/converters.md``: csv, hypatia, leoreplayer, mahimahi, netem or
                starrynet; default: Parquet, which holds all of it.
            step: Interval between samples, in formats that hold samples; default: 0.1 s. Only with `format`.

        Warns:
            UserWarning: What the format cannot hold.

        Raises:
            UserError: The file cannot be written, the format cannot hold this Profile, or `step` has no format.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=10)
            >>> [file.name for file in path.write("D.parquet")]
            ['D.parquet']
            >>> [file.name for file in path.write("D", format="mahimahi")]
            ['D.up', 'D.down']
        """
        from bentpipe.profiles.convert import write_as
        from bentpipe.profiles.convert.writing import WriteOptions
        from bentpipe.profiles.parquet import write_profile

        path = arguments.file(file, "file")
        if format is None:
            _refuse_without_format(step=step)
            write_profile(self._native, path)
            return [path]
        options = WriteOptions(step_s=WriteOptions.step_s if step is None else arguments.seconds(step, "step"))
        written = write_as(arguments.text(format, "format"), self._native, path, options)
        for note in written.notes:
            _warn(note)
        return list(written.files)

    def with_seed(self, seed: int) -> Profile:
        """Return the same geometry with random processes drawn from another seed, as Runs of other seeds have it.

        Raises:
            UserError: It has no random processes, or the seed is out of range.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.make(site="louvain", to="london", duration=15)
            >>> path.with_seed(1).seed, path.with_seed(1) == path
            (1, False)
        """
        if self.seed is None:
            raise UserError(
                f"the Profile {self.name!r} has no random process", where="seed", expected="one computed from orbits"
            )
        if arguments.integer(seed, "seed") >= 2**64:
            raise UserError(f"{seed}", where="seed", expected="0 to 2^64 - 1")
        return Profile(self._native.reseed(seed))

    def run(
        self,
        command: Sequence[str],
        *,
        server: str | None = None,
        out: FileLike | None = None,
        seed: int = 0,
        offset: DurationLike | None = None,
        at_end: Literal["loop", "hold", "stop"] = "loop",
        mtu: int = 1500,
        gateway_cc: str | None = None,
        internet: Literal["public", "any", "none"] = "public",
        queue: str | Sequence[str] = (),
        recovery: str | None = None,
        nodes: bool = False,
        capture: bool = False,
        listen_within: DurationLike = 10.0,
        on_row: Callable[[Row], object] | None = None,
    ) -> Program:
        """Run a real program on the emulated path, in real time, with this process's terminal.

        Needs no root where the kernel allows user namespaces (`bentpipe.check_kernel`). The program is in no sandbox:
        it runs as you, with your files; only its network differs.

        Args:
            command: Program and arguments: ``["curl", "-s", "http://server:8000/"]``.
            server: Shell command at the other end, at the host name ``server``; the program starts when it listens.
            out: Folder for the Run; default: not stored.
            seed: Seed of the path's random processes.
            offset: Offset in the Profile at which the path begins; default: the current second of the minute, so that
                reconfigurations come at :12, :27, :42 and :57.
            at_end: At the Profile's end: repeat it, keep its last values, or end the program.
            mtu: Largest IP packet [bytes].
            gateway_cc: This kernel's congestion controller for TCP data from the Internet; default: the kernel's own.
            internet: What the program reaches beside the server: public addresses, ``any``, or ``none``.
            queue: Queue discipline that replaces the Profile's own, as in `Experiment`.
            recovery: Loss recovery on the path: a scheme of `recovery_schemes` inside the network, with its tunables.
            nodes: Make terminal, satellites and ground station processes of their own that exchange real packets. They
                do not repeat the Profile.
            capture: Store the packets of both ends in the Run, as pcapng; with `nodes`, each node's frames as pcap.
            listen_within: Longest wait for the server to listen.
            on_row: Called with each row of the Run while it goes on (`bentpipe.runs.rows`), in a thread of its own; if
                it falls far behind, rows are dropped and a `DroppedRow` says how many.

        Raises:
            UserError: The program cannot be run on this path.
            BentpipeError: The emulation failed after its start, or the disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.make(site="louvain", to="london", duration=60)
            >>> done = path.run(["ping", "-c", "5", "server"], out="out/ping")  # doctest: +SKIP
            >>> done.exit_code, done.valid  # doctest: +SKIP
            (0, True)
        """
        from bentpipe.objects.program import run_program

        return run_program(
            self._native,
            arguments.texts(command, "command"),
            server=arguments.optional_text(server, "server"),
            out=None if out is None else arguments.file(out, "out"),
            seed=arguments.integer(seed, "seed"),
            offset_s=None if offset is None else arguments.seconds(offset, "offset"),
            at_end=arguments.choice(at_end, "at_end", ("loop", "hold", "stop")),
            mtu=arguments.integer(mtu, "mtu", 1),
            gateway_controller=arguments.optional_text(gateway_cc, "gateway_cc"),
            internet=arguments.choice(internet, "internet", ("public", "any", "none")),
            queues=arguments.texts(queue, "queue"),
            recovery=arguments.optional_text(recovery, "recovery"),
            nodes=nodes,
            capture=capture,
            listen_within_s=arguments.seconds(listen_within, "listen_within"),
            on_rows=arguments.row_callback(on_row, "on_row"),
        )


def _refuse_without_format(**values: object) -> None:
    """Refuse arguments that belong to another tool's format."""
    for name, value in values.items():
        if value is not None:
            raise UserError("given without format", where=name, expected="it only with one", hint="format=…")


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, UserWarning, stacklevel=3)


def profile_of(value: Profile | FileLike, where: str) -> Profile:
    """Return a Profile given as such or by its file. Raises `UserError` for anything else."""
    if isinstance(value, Profile):
        return value
    if isinstance(value, _native.Profile):
        return Profile(value)
    try:
        return Profile.read(arguments.file(value, where))
    except UserError as error:
        if str(error).startswith(where):
            raise UserError(shown(value), where=where, expected="a Profile or the file of one") from None
        raise
