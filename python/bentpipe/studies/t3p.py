"""Terminals and nearby servers of the T3P studies (Tiwari et al., arXiv:2310.11835)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bentpipe.scenarios.ground import pop_by_code
from bentpipe.scenarios.sites import Place
from bentpipe.studies.measured import Part
from bentpipe.studies.simulated import Windows, simulated_pings
from bentpipe.studies.study import OnProgress
from bentpipe.studies.t3p_files import T3pTerminals

SOURCE = "Tiwari et al., T3P: Demystifying Low-Earth Orbit Satellite Broadband (arXiv:2310.11835)"
GOOGLE_DNS = "8.8.8.8"
#: The paper's interval between probes [s].
EVERY_S = 1.0


def load_terminals() -> Mapping[str, Place]:
    """Return the paper's terminals by their key in ``scenarios/studies/t3p.toml``."""
    return {key: entry.place(key) for key, entry in T3pTerminals.load().sites.items()}


def near_server(terminal: Place, name: str = GOOGLE_DNS) -> Place:
    """Return an anycast service that answers `terminal` at its PoP."""
    pop = pop_by_code(str(terminal.pop))
    return Place(name, pop.lat_deg, pop.lon_deg, description=f"at the PoP in {pop.city}")


def simulated_probes(
    keys: Sequence[str], windows: Windows, on_progress: OnProgress = lambda _: None
) -> dict[str, Part]:
    """Simulate pings to `GOOGLE_DNS` from some terminals, by key; each terminal has its own seed."""
    terminals = load_terminals()
    parts = {}
    for number, key in enumerate(keys):

        def advance(done: float, before: int = number) -> None:
            on_progress((before + done) / len(keys))

        site = terminals[key]
        seed = 1000 * (1 + list(terminals).index(key))
        pings = simulated_pings(site, near_server(site), windows, EVERY_S, seed, advance)
        parts[key] = Part(site.name, f"simulated: every {EVERY_S:g} s, {windows.text}", pings)
    return parts
