"""Figures of Runs: each is a method that takes the axes to draw into and returns the Figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.objects import arguments
from bentpipe.objects.profile_selection import is_over, no_such_profile
from bentpipe.plots.distributions import plot_cdfs, plot_destinations
from bentpipe.plots.load_test import plot_load_test
from bentpipe.plots.overview import plot_overview
from bentpipe.plots.timeline import plot_sharing, plot_timeline
from bentpipe.report.selection import shown_seed
from bentpipe.runs.apart import distinguish
from bentpipe.runs.commands import by_command
from bentpipe.runs.summary import left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from bentpipe.objects.profile import Profile
    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs import store


class RunPlots:
    """Figures of the valid Runs of a `RunSet` or `Run`; Runs of programs are grouped by their command.

    `ax` of every method is one or several Matplotlib axes, as many as the figure has panels; None: a new figure.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
        >>> figure = bp.Experiment(path, schemes=["cubic", "bbr"]).simulate().plot.timeline()
        >>> figure.savefig("timeline.png")
    """

    def __init__(self, runs: Sequence[store.Run]) -> None:
        """Take the Runs of `bentpipe.runs`."""
        self._runs = distinguish(by_command(runs))

    def timeline(self, *, profile: Profile | str | None = None, seed: int | None = None, ax: AxesLike = None) -> Figure:
        """Plot goodput and capacity, window, RTT and queue of each controller alone, over time.

        Args:
            profile: The Profile or its name, if there are several.
            seed: The seed; default: the median by the goodput of all schemes together.
            ax: Five axes: serving satellite and loss, then the four panels.

        Raises:
            UserError: No such Runs.
        """
        runs = self._over_one(profile)
        alone = [run for run in runs if len(run.flows) == 1]
        if not alone:
            raise UserError(
                "every Run has several flows", where="timeline", expected="one flow alone", hint="plot.goodput()"
            )
        chosen = _comparable(self._of_seed(alone, seed))
        schemes = {run.scheme for run in chosen}
        every = [run for run in self._runs if run.label == chosen[0].label and len(run.flows) == 1]
        absent = list(dict.fromkeys(run.scheme for run in every if run.scheme not in schemes))
        return plot_timeline(chosen, absent=absent, ax=ax)

    def goodput(self, *, profile: Profile | str | None = None, seed: int | None = None, ax: AxesLike = None) -> Figure:
        """Plot the goodput of each flow and the capacity over time, one panel for each scheme.

        Args:
            profile: The Profile or its name, if there are several.
            seed: The seed; default: the median by the goodput of all schemes together.
            ax: One axes for each scheme.

        Raises:
            UserError: No such Runs.
        """
        return plot_sharing(self._of_seed(self._over_one(profile), seed), ax=ax)

    def latency(self, *, profile: Profile | str | None = None, seed: int | None = None, ax: AxesLike = None) -> Figure:
        """Plot goodput down and up and the RTT of pings over time, one line for each controller.

        Args:
            profile: The Profile or its name, if there are several.
            seed: The seed; default: the median by the goodput of all schemes together.
            ax: Three axes: download, upload, pings.

        Raises:
            UserError: No such Runs, none has pings, or Runs of one scheme are not comparable, as their tests differ.
        """
        pinged = [run for run in self._over_one(profile) if run.pings and len(set(run.names)) == 1]
        if not pinged:
            problem = "no Run with pings beside flows of one controller"
            raise UserError(problem, where="latency", expected="Runs of a test")
        return plot_load_test(_comparable(self._of_seed(pinged, seed)), ax=ax)

    def overview(self, *, ax: AxesLike = None) -> Figure:
        """Plot the goodput of every scheme: mean over the Runs, 95 % confidence interval, and each Run."""
        return plot_overview(self._valid(), left=left_out(self._runs), ax=ax)

    def cdfs(self, *, profile: Profile | str | None = None, ax: AxesLike = None) -> Figure:
        """Plot distributions of goodput in short and in longer bins, and of the RTT, of each controller alone.

        Args:
            profile: The Profile or its name, if there are several.
            ax: Three axes.

        Raises:
            UserError: No such Runs, or Runs of one scheme that are not comparable, as their queues differ.
        """
        return plot_cdfs(_comparable(self._over_one(profile)), ax=ax)

    def destinations(self, *, ax: AxesLike = None) -> Figure:
        """Plot goodput, share retransmitted, window and RTT by Profile and controller (four axes).

        Raises:
            UserError: No such Runs, or Runs of one scheme that are not comparable, as their queues differ.
        """
        return plot_destinations(_comparable(self._valid()), ax=ax)

    def _valid(self) -> list[store.Run]:
        valid = [run for run in self._runs if run.record.valid and run.flows]
        if not valid:
            why = next((run.record.why_invalid for run in self._runs), None)
            raise UserError(
                f"no valid Run with a flow{f' ({why})' if why else ''}", where="plot", expected="at least one"
            )
        return valid

    def _over_one(self, profile: Profile | str | None) -> list[store.Run]:
        valid = self._valid()
        labels = list(dict.fromkeys(run.label for run in valid))
        if profile is None:
            if len(labels) > 1:
                raise UserError("none given", where="profile", expected=f"one of {', '.join(labels)}")
            return valid
        over = is_over(profile, "profile")
        chosen = [run for run in valid if over(run)]
        if not chosen:
            raise no_such_profile(profile, labels)
        return chosen

    def _of_seed(self, runs: Sequence[store.Run], seed: int | None) -> list[store.Run]:
        known = sorted({run.seed for run in runs})
        if seed is None:
            seed, _ = shown_seed(runs)
        elif arguments.integer(seed, "seed") not in known:
            raise UserError(f"{seed}", where="seed", expected=f"one of {', '.join(map(str, known))}")
        return [run for run in runs if run.seed == seed]


def _comparable(runs: list[store.Run]) -> list[store.Run]:
    """Refuse Runs of one scheme on one Profile from Experiments that differ: one line would stand for both."""
    names: dict[tuple[str, str], str] = {}
    for run in runs:
        first = names.setdefault((run.label, run.scheme), run.experiment)
        if first != run.experiment:
            raise UserError(
                f"{run.scheme} over {run.label} is of two Experiments ({first}; {run.experiment})",
                where="plot",
                expected="one",
                hint="filter(…)",
            )
    return runs
