"""How every figure looks: one style, and each controller's name, colour and marker defined once.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), which readers with any common colour blindness can
tell apart; the marker and the dash tell the rest apart in black and white.
"""

from __future__ import annotations

import base64
import re
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.experiments.flow_names import COMMAND, flow_parts, is_command, split_flow
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
    """How a controller appears: its written name, colour and marker, and its line's dashes (on, off, … in points)."""

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
"""Controllers that have a look of their own, in the order of a report. Any other has one from `SPARE`, by its name."""

SPARE = ("#7F7F7F", "#999933", "#AA4499", "#6699CC", "#DDAA33")
"""Colours of controllers without a look of their own (but for the grey, Paul Tol's "muted" scheme, 2021)."""

SPARE_MARKERS = ("D", "v", "P", "X", "*")

CAPACITY = "#9AA0A6"
"""The path's capacity, behind the flows."""

HANDOVER = "#A05A8C"
"""Handovers."""

OUTAGE = "#F6D5CC"
"""Where there is no path, behind everything."""

SERVING = ("#DCE6F2", "#C3D3E8")
"""Who serves, by turns."""

LOSS = "#B5483A"
"""Where packets are lost at random."""

SLOT = "#C8CCD2"
"""Edges of the scheduler's slots."""

DELAY = "#5B636D"
"""One-way delay of all flows together."""

WARM_UP = "#F1F3F5"
"""What the figures after the warm-up leave out, behind everything."""


def look(controller: str) -> Look:
    """The look of a controller or a command; one that has none, or tunables, gets a spare colour by its name."""
    if controller in LOOKS:
        return LOOKS[controller]
    number = zlib.crc32(controller.encode())
    colour, marker = SPARE[number % len(SPARE)], SPARE_MARKERS[number // len(SPARE) % len(SPARE_MARKERS)]
    if is_command(controller):
        return Look(controller.removeprefix(COMMAND), colour, marker, (5, 1.5))
    name, tunables = split_flow(controller)
    name = name.rpartition(":")[2]  # of one in a Python file its class
    return Look(f"{look(name).name} ({tunables})" if tunables else name, colour, marker, (5, 1.5))


def scheme_name(scheme: str) -> str:
    """``cubic+bbr`` as people read it: ``CUBIC + BBR``."""
    return " + ".join(look(part).name for part in flow_parts(scheme))


def legend_name(controller: str) -> str:
    """A controller's written name, with what a user types behind it where that is another: ``NewReno (reno)``."""
    name = look(controller).name
    if is_command(controller):
        return short_command(name)
    return name if ":" in controller or name.lower() == controller else f"{name} ({controller})"


COMMAND_LETTERS = 44
"""Letters of a command in a figure. Chosen here: half of its width."""


def short_command(text: str) -> str:
    """Return a command with its middle left out where it is long: its program and its last options stay."""
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
    "font.family": "DejaVu Sans",  # comes with Matplotlib: the same on every machine
    "font.size": 9,
    "grid.color": "#E4E6EA",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "savefig.facecolor": "white",
    "svg.hashsalt": "bentpipe",  # otherwise ids in an SVG differ from one call to the next
    "text.parse_math": False,  # names come from files: a $ in one begins no formula
    "xtick.color": "#5F6368",
    "xtick.labelcolor": "#202124",
    "xtick.labelsize": 8.5,
    "ytick.color": "#5F6368",
    "ytick.labelcolor": "#202124",
    "ytick.labelsize": 8.5,
}


def absent_handles(controllers: Iterable[str]) -> list[Line2D]:
    """Legend entries, pale, of controllers without a valid Run: their lines are missing for that reason."""
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
"""Least width of a span that is drawn, of its axis. Chosen here: two dots of a figure as wide as the page."""


def widened(spans: Iterable[tuple[float, float]], length: float) -> list[tuple[float, float]]:
    """Return spans of an axis from 0 to `length`, each at least `NARROWEST` of it wide: a shorter one leaves no mark.

    A span grows on both sides of its middle, and stays within the axis.
    """
    least = NARROWEST * length
    found = []
    for start, end in spans:
        low = min(max((start + end - least) / 2, 0.0), length - least)
        found.append((start, end) if end - start >= least else (low, low + least))
    return found


LETTER_IN, HANDLE_IN = 0.078, 0.6
"""What a letter of a legend and its line or patch with the space around take [inch], at the settings above."""


def legend_above(figure: Figure, handles: Sequence[Any]) -> None:
    """A legend above all axes, in as many columns as the figure is wide enough for."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    columns = int(figure.get_figwidth() / (HANDLE_IN + LETTER_IN * longest))
    figure.legend(handles=list(handles), loc="outside upper center", ncols=max(1, min(6, columns)))


def log_scale(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks: Matplotlib's own are mathtext, which is off here."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    if which == "x":
        axes.set_xscale("log")
        axis: Axis = axes.xaxis
    else:
        axes.set_yscale("log")
        axis = axes.yaxis
    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())


def in_lines(name: str, letters: int) -> str:
    """A Profile's name in lines of about so many letters, broken behind its hyphens."""
    lines = [""]
    for piece in re.findall(r"[^-]*-?", name):
        if lines[-1] and len(lines[-1]) + len(piece) > letters:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def stamp(figure: Figure, said: str) -> None:
    """Write `said` pale across a figure, as large as it is high."""
    size = min(64.0, 20.0 * figure.get_figheight())
    figure.text(0.5, 0.5, said, fontsize=size, color=LOSS, alpha=0.2, rotation=12, ha="center", va="center", zorder=10)


@contextmanager
def styled() -> Iterator[None]:
    """Draw inside this block, and only there, in the plugins style, without a display."""
    from matplotlib import style  # here, because it takes half a second that only those who draw should pay

    with style.context(["default", dict(SETTINGS)]):
        yield


UNDATED: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def save(figure: Figure, path: Path) -> None:
    """Write a figure as the file's ending says (png, svg, pdf), without a date or version in it."""
    kind = path.suffix.lstrip(".")
    image = BytesIO()
    with styled():
        figure.savefig(image, format=kind, metadata=UNDATED.get(kind))
    replace_file(path, image.getbuffer())


def data_uri(figure: Figure) -> str:
    """A figure as PNG for a page that holds all it shows."""
    image = BytesIO()
    with styled():
        figure.savefig(image, format="png", metadata=UNDATED["png"])
    return "data:image/png;base64," + base64.b64encode(image.getvalue()).decode()
