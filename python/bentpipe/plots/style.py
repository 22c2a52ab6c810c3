"""The style of all figures, and each controller's name, colour and marker.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), distinguishable with any common colour blindness.
Markers and dashes distinguish controllers in black and white.
"""

from __future__ import annotations

import base64
import re
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.errors import printable
from bentpipe.experiments.flow_names import COMMAND, flow_parts, is_command, split_flow, without_folders
from bentpipe.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


@dataclass(frozen=True)
class Look:
    """A controller's appearance: written name, colour, marker, and the line's dashes (on, off, … in points)."""

    name: str
    colour: str
    marker: str
    dashes: tuple[float, ...] = ()

    @property
    def line(self) -> Any:  # noqa: ANN401 -- Matplotlib's own union of texts and nested tuples
        """The line style as Matplotlib takes it."""
        return (0, self.dashes) if self.dashes else "-"


LOOKS: Mapping[str, Look] = {
    "reno": Look("NewReno", "#0072B2", "o"),
    "cubic": Look("CUBIC", "#D55E00", "s"),
    "bbr": Look("BBR", "#009E73", "^"),
    "bbr2": Look("BBRv2", "#E69F00", "v"),
    "bbr3": Look("BBRv3", "#CC79A7", "D"),
    "hybla": Look("Hybla", "#56B4E9", "P"),
    "satcp": Look("SaTCP", "#117733", "X"),
    "satpipe": Look("SatPipe", "#44AA99", "*"),
    "leocc": Look("LeoCC", "#882255", "<"),
    "cubic-leo": Look("CUBIC-LEO", "#661100", "h"),
    "bbr3-leo": Look("BBRv3-LEO", "#332288", "d"),
}
"""Looks of known controllers, in the order of a report. Any other gets one from `SPARE`, by its name."""

SPARE = ("#7F7F7F", "#999933", "#AA4499", "#6699CC", "#DDAA33")
"""Colours of other controllers (except the grey, Paul Tol's "muted" scheme, 2021)."""

SPARE_MARKERS = ("D", "v", "P", "X", "*")

CAPACITY = "#9AA0A6"
"""Colour of the path's capacity, behind the flows."""

HANDOVER = "#A05A8C"
"""Colour of handovers."""

OUTAGE = "#F6D5CC"
"""Colour of times without a path, in the background."""

SERVING = ("#DCE6F2", "#C3D3E8")
"""Alternating colours of serving satellites."""

LOSS = "#B5483A"
"""Colour of random loss."""

SLOT = "#C8CCD2"
"""Colour of slot edges."""

DELAY = "#5B636D"
"""Colour of the one-way delay of all flows together."""

WARM_UP = "#F1F3F5"
"""Colour of the warm-up, in the background."""


def look(controller: str) -> Look:
    """Return the look of a controller or command; an unknown one, or one with tunables, gets a spare colour."""
    if controller in LOOKS:
        return LOOKS[controller]
    number = zlib.crc32(controller.encode(errors="surrogatepass"))
    colour, marker = SPARE[number % len(SPARE)], SPARE_MARKERS[number // len(SPARE) % len(SPARE_MARKERS)]
    if is_command(controller):
        return Look(controller.removeprefix(COMMAND), colour, marker, (5, 1.5))
    name, tunables = split_flow(controller)
    name = name.rpartition(":")[2]  # the class of a controller in a Python file
    return Look(f"{look(name).name} ({tunables})" if tunables else name, colour, marker, (5, 1.5))


def scheme_name(scheme: str, among: Iterable[str] = ()) -> str:
    """Return a scheme's written name: ``CUBIC + BBR`` for ``cubic+bbr``.

    A class in Python is named by its file too if one of the same name is `among` other schemes.
    """
    others = {part for each in among for part in flow_parts(each)}
    taken = {look(part).name for part in others - set(flow_parts(scheme))}
    names = [(part, look(part).name) for part in flow_parts(scheme)]
    return " + ".join(without_folders(part, others) if name in taken else name for part, name in names)


def legend_name(controller: str) -> str:
    """Return a controller's written name, followed by its registry name if that differs: ``NewReno (reno)``."""
    name = look(controller).name
    if is_command(controller):
        return short_command(name)
    return name if ":" in controller or name.lower() == controller else f"{name} ({controller})"


COMMAND_LETTERS = 44
"""Largest number of characters of a command in a figure. Chosen here: half of its width."""


def short_command(text: str) -> str:
    """Shorten a long command in its middle: the program and the last options remain."""
    if len(text) <= COMMAND_LETTERS:
        return text
    return f"{text[: COMMAND_LETTERS // 2]} … {text[-COMMAND_LETTERS // 2 :]}"


SETTINGS: Mapping[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#5F6368",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": "#202124",
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",  # part of Matplotlib: the same on every machine
    "font.size": 9,
    "grid.color": "#E4E6EA",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "savefig.facecolor": "white",
    "svg.hashsalt": "bentpipe",  # otherwise ids in an SVG differ from one call to the next
    "text.parse_math": False,  # names come from files: a $ in one starts no formula
    "xtick.color": "#5F6368",
    "xtick.labelcolor": "#202124",
    "xtick.labelsize": 8.5,
    "ytick.color": "#5F6368",
    "ytick.labelcolor": "#202124",
    "ytick.labelsize": 8.5,
}


def absent_handles(controllers: Iterable[str]) -> list[Line2D]:
    """Return pale legend entries of controllers without a valid Run, whose lines are missing."""
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            color=look(name).colour,
            linestyle=look(name).line,
            alpha=0.35,
            label=f"{legend_name(name)}: not valid",
        )
        for name in controllers
    ]


NARROWEST = 1 / 600
"""Smallest width of a drawn span, as a share of its axis. Chosen here: two dots of a figure as wide as the page."""


def widened(spans: Iterable[tuple[float, float]], length: float) -> list[tuple[float, float]]:
    """Widen spans of an axis from 0 to `length` to at least `NARROWEST` of it, so that each is visible.

    A span grows on both sides of its middle and stays within the axis.
    """
    least = NARROWEST * length
    wide = []
    for start, end in spans:
        low = min(max((start + end - least) / 2, 0.0), length - least)
        wide.append((start, end) if end - start >= least else (low, low + least))
    return wide


LETTER_IN, HANDLE_IN = 0.078, 0.6
"""Width of a character of a legend, and of its line or patch with spacing [inch], at the settings above."""


def legend_above(figure: Figure, handles: Sequence[Any]) -> None:
    """Add a legend above all axes, in as many columns as fit the figure's width."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    columns = int(figure.get_figwidth() / (HANDLE_IN + LETTER_IN * longest))
    figure.legend(handles=list(handles), loc="outside upper center", ncols=max(1, min(6, columns)))


def log_scale(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic with plain numbers at its ticks."""
    if which == "x":
        axes.set_xscale("log")
        axis: Axis = axes.xaxis
    else:
        axes.set_yscale("log")
        axis = axes.yaxis
    plain_log_ticks(axis)


def plain_log_ticks(axis: Axis) -> None:
    """Write plain numbers at the ticks of a logarithmic axis: Matplotlib's own use mathtext, which is off here."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())


def in_lines(name: str, letters: int) -> str:
    """Break a Profile's name after hyphens into lines of about `letters` characters, without control characters."""
    lines = [""]
    for piece in re.findall(r"[^-]*-?", printable(name)):
        if lines[-1] and len(lines[-1]) + len(piece) > letters:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def stamp(figure: Figure, text: str) -> None:
    """Write `text` in a pale colour across a figure, as large as the figure is high."""
    size = min(64.0, 20.0 * figure.get_figheight())
    figure.text(0.5, 0.5, text, fontsize=size, color=LOSS, alpha=0.2, rotation=12, ha="center", va="center", zorder=10)


@contextmanager
def styled() -> Iterator[None]:
    """Apply bentpipe's style inside this block only, without a display."""
    from matplotlib import style  # imported here: it takes half a second

    with style.context(["default", dict(SETTINGS)]):
        yield


UNDATED: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's suffix (png, svg, pdf), without a date or version in it."""
    kind = path.suffix.lstrip(".")
    replace_file(path, _image(figure, kind))


def data_uri(figure: Figure) -> str:
    """Return a figure as a PNG data URI, for a self-contained page."""
    return "data:image/png;base64," + base64.b64encode(_image(figure, "png")).decode()


def _image(figure: Figure, kind: str) -> memoryview:
    """Return a figure as a file of a format."""
    image = BytesIO()
    with styled(), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the tables have it.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(image, format=kind, metadata=UNDATED.get(kind))
    return image.getbuffer()
