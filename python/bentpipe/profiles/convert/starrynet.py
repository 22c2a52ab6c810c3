"""Link files of StarryNet: terminal and server are ground stations, with one satellite between them.

``GS-2/gsl/T.txt`` has one line for each ground station, ``gs|removed|updated|added``, with links
``index,shell,orbit,satellite,delay_ms`` separated by blanks: the changes at step T, equal in both directions. Each
shell also has ``isl/T.txt`` (empty here: no inter-satellite links) and ``position/T+1.txt`` (StarryNet,
starrynet/sn_observer.py and sn_synchronizer.py, commit 1b43d5d). StarryNet uses existing files if its cache is on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Profile
from bentpipe.errors import UserError, shown
from bentpipe.files import read_text, write_error
from bentpipe.measurements.readers.checked import MAX_RTT_MS, member, number, parse_json
from bentpipe.profiles.build import MAX_DURATION_S, Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.profiles.convert.writing import WriteOptions, Written, grid_s, no_path_notes, stepped_rtt_ms
from bentpipe.profiles.path import PathView
from bentpipe.profiles.table import DIRECTIONS

#: Folder in StarryNet's naming scheme: name, link style and policy of the configuration.
_EXPERIMENT = "bentpipe-Grid-LeastDelay"
#: One shell of two satellites, which alternate at handovers. StarryNet derives the shell's name from its numbers.
_SHELL = {"Altitude (km)": 550, "Inclination": 53, "Orbits": 1, "Satellites per orbit": 2, "Phase shift": 1}
_SHELL_FOLDER = "0_550-53-1-2-1"
#: Change of delay [ms] below which StarryNet ignores it.
_SAME_MS = 0.01
#: Largest number of steps; each is three files. Chosen here: a day of seconds.
_MAX_STEPS = 86_400

_LINK = re.compile(r"(\d{1,6}),(\d{1,3}),(\d{1,4}),(\d{1,4}),(\d{1,6}(?:\.\d{1,9})?)\Z")


def write_starrynet(profile: Profile, path: Path, options: WriteOptions) -> Written:
    """Write the folder `path`: ``config.json`` and the link files of every step.

    StarryNet's links have equal delays in both directions, so the one-way delay is half of the RTT. Half of it is the
    terminal's link, half the server's. Without a path, and in gaps of a step or more, neither has a link.

    Raises:
        UserError: `path` exists already, the step is out of range, or there are more than a day of steps.
    """
    view = PathView(profile)
    times = grid_s(view, options)
    if times.size > _MAX_STEPS:
        raise UserError(
            f"{times.size} steps", where=profile.name, expected=f"at most {_MAX_STEPS}", hint="a longer `step`"
        )
    if path.exists():
        raise UserError("exists already", where=str(path), expected="the name of a new folder for StarryNet's files")
    rtt_ms, known = stepped_rtt_ms(view, times, options)
    link_ms = np.where(known, rtt_ms, np.nan) / 4
    satellite = np.searchsorted([event["at_ns"] / 1e9 for event in view.handovers()], times, side="right") % 2
    capacity = [view.capacity(direction) for direction in DIRECTIONS]
    mean_bps = min((float(c.mean()) for c in capacity if np.isfinite(c.value).all()), default=5e9)
    loss = [view.loss(direction).mean() for direction in DIRECTIONS]
    config = {
        "Name": _EXPERIMENT.split("-", maxsplit=1)[0],
        "Shells": [_SHELL],
        "Duration (s)": times.size * options.step_s,
        "step (s)": options.step_s,
        'satellite link bandwidth ("X" Gbps)': 5,
        'sat-ground bandwidth ("X" Gbps)': mean_bps / 1e9,
        'satellite link loss ("X"% )': 0,
        'sat-ground loss ("X"% )': round(100 * (1 - (1 - max(loss)) ** 0.5), 6),
        "antenna number": 1,
        "antenna elevation angle": 25,
        "Satellite link": "Grid",
        "IP version": "IPv4",
        "Link policy": "LeastDelay",
        "Handover policy": "instant handover",
        "Machines": [],
    }
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=_parent(path)))
    try:
        (folder / "config.json").write_text(json.dumps(config, indent=4) + "\n")
        shell, links = folder / _EXPERIMENT / _SHELL_FOLDER, folder / _EXPERIMENT / "GS-2" / "gsl"
        for subfolder in (shell / "isl", shell / "position", links):
            subfolder.mkdir(parents=True)
        for step, text in enumerate(_steps(link_ms, satellite)):
            (links / f"{step}.txt").write_text(text)
            (shell / "isl" / f"{step}.txt").write_text("0,0|||\n0,1|||\n\n")
            (shell / "position" / f"{step + 1}.txt").write_text("0.000000,0.000000,550.000000\n" * 2 + "\n")
        folder.chmod(0o755)
        folder.rename(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Written(
        [path],
        [
            "capacity and loss are one number each in StarryNet (config.json): the lower mean, and the higher mean "
            "over two links",
            "positions are not in a Profile: those written are placeholders; add your machines to config.json",
            *no_path_notes(known),
        ],
    )


def _parent(path: Path) -> Path:
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise UserError(f"the directory {parent} does not exist; make it first", where=str(path))
    return parent


def _steps(link_ms: NDArray[np.float64], satellite: NDArray[np.int64]) -> Iterator[str]:
    """Yield the text of each step: the changes of both ground stations' links."""
    old: tuple[int, float] | None = None
    for ms, sid in zip(link_ms.tolist(), satellite.tolist(), strict=True):
        new = None if ms != ms else (sid, ms)  # noqa: PLR0124 - NaN: no path
        lines = []
        for ground in (0, 1):

            def link(of: tuple[int, float], ground: int = ground) -> str:
                return f"{2 * ground + of[0]},0,0,{of[0]},{of[1]:.2f}"

            removed = added = updated = ""
            if old is not None and (new is None or new[0] != old[0]):
                removed = link(old)
            if new is not None and (old is None or new[0] != old[0]):
                added = link(new)
            elif new is not None and old is not None and abs(new[1] - old[1]) > _SAME_MS:
                updated = link(new)
            lines.append(f"{ground}|{removed}|{updated}|{added}\n")
        if new is None or old is None or new[0] != old[0] or abs(new[1] - old[1]) > _SAME_MS:
            old = new
        yield "".join(lines)


def read_starrynet(paths: Paths, options: ReadOptions) -> Converted:
    """Read the Profile between the first two ground stations: the sum of their links to a common satellite.

    A step without a common satellite is a gap.

    Raises:
        UserError: No ``config.json``, no link files below it, or an invalid line; the message names it.
    """
    folder = Path(one_path(paths, "StarryNet's files"))
    where = folder / "config.json"
    config = parse_json(str(where), read_text(where))
    step_s = number(f"{where}: step (s)", member(str(where), config, "step (s)", (int, float)), 0.001, 3600, "s")
    sources = sorted(folder.glob("*/GS-*/gsl"))
    if len(sources) != 1:
        raise UserError(
            f"{len(sources)} folders of ground stations' links (*/GS-*/gsl)", where=str(folder), expected="one"
        )
    count = sum(1 for file in sources[0].iterdir() if file.suffix == ".txt")
    if not 0 < count * step_s <= MAX_DURATION_S:
        raise UserError(
            f"{count} steps of {step_s:g} s", where=f"{sources[0]}", expected="one at least, and at most 31 days"
        )
    delay_ms = np.full(count, np.nan)
    links: dict[int, dict[int, tuple[str, float]]] = {0: {}, 1: {}}
    for step in range(count):
        _apply(sources[0] / f"{step}.txt", links)
        ends = [dict(links[ground].values()) for ground in (0, 1)]
        common = sorted(set(ends[0]) & set(ends[1]))
        if common:
            delay_ms[step] = min(ends[0][name] + ends[1][name] for name in common)
    known = ~np.isnan(delay_ms)
    if not known.any():
        raise UserError("the first two ground stations share no satellite at any step", where=f"{sources[0]}")
    last = np.maximum.accumulate(np.where(known, np.arange(count), int(np.argmax(known))))
    side = Side(Points.of(np.arange(count) * step_s, delay_ms[last] / 1e3, known), queue=options.limit())
    profile = single_hop_profile(
        name=options.name_for(folder),
        hop="path",
        start_unix_ns=options.start_unix_ns or 0,
        duration_s=count * step_s,
        basis="one_way",
        provenance=Provenance("measured", f"StarryNet's link delays in {options.name_for(folder)}"),
        up=side,
        down=side,
    )
    gaps = int((~known).sum())
    return Converted(profile, [f"{gaps} of {count} steps without a path: gaps in the Profile"] if gaps else [])


def _apply(path: Path, links: dict[int, dict[int, tuple[str, float]]]) -> None:
    """Apply the changes in a file to `links`: ground station → index → (satellite, delay [ms])."""
    for count, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        parts = line.split("|")
        if len(parts) != 4 or not (parts[0].isascii() and parts[0].isdigit() and len(parts[0]) <= 6):
            raise UserError(f"{shown(line)} is not ground station|removed|updated|added", where=f"{path}:{count}")
        own_links = links.get(int(parts[0]))
        for place, text in enumerate(parts[1:]):
            for word in text.split():
                match = _LINK.match(word)
                if match is None or float(match[5]) > MAX_RTT_MS:
                    raise UserError(
                        f"{shown(word)} is not index,shell,orbit,satellite,delay_ms", where=f"{path}:{count}"
                    )
                if own_links is None:
                    continue
                if place == 0:
                    own_links.pop(int(match[1]), None)
                else:
                    own_links[int(match[1])] = (",".join(match.group(2, 3, 4)), float(match[5]))
