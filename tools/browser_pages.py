"""Page load times in the simulator and in Chromium: the tables in docs/design/019-http3.md.

    python tools/browser_pages.py [1|2|3]

Needs Chromium, the extra ``browser`` and a machine that can emulate.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

import bentpipe as bp

LOADS = 20
BROWSER_START_S = 4.5
"""About the time that the browser takes until its first load: simulated loads begin there, and half a second apart."""
PATHS = {
    "20 Mbit/s, 60 ms": "dumbbell:rate=20mbit,rtt=60ms,queue=100ms",
    "the same, 1 % loss": "dumbbell:rate=20mbit,rtt=60ms,queue=100ms,loss=0.01",
    "1 Gbit/s, 2 ms": "dumbbell:rate=1gbit,rtt=2ms,queue=100ms",
}
OBJECTS = [
    ("a", "", 15_000, 55, "text/html", None),
    *[("a", f"s{i}.css", 10_000, 55, "text/css", "a/") for i in range(2)],
    *[("b", f"j{i}.js", 25_000, 60, "text/javascript", "a/") for i in range(4)],
    *[("ab"[i % 2], f"i{i}.png", 20_000, 70, "image/png", "a/") for i in range(6)],
    ("c", "late.png", 40_000, 130, "image/png", "b/j0.js"),
]
"""Host, name, bytes, begin [ms], type and initiator of each object: 14 objects, 0.30 MB."""


def write_page(folder: str) -> Path:
    """Write the page as a HAR file: small, so that the server, which is in Python, is no limit."""
    entries = []
    for number, (host, name, size, begin, kind, initiator) in enumerate(OBJECTS):
        led = {} if initiator is None else {"_initiator": f"https://{initiator.replace('/', '.example/', 1)}"}
        content = {"mimeType": kind, "size": size}
        entry = {
            "startedDateTime": f"2026-05-10T09:00:00.{0 if number == 0 else begin:03}Z",
            "time": 50 if number == 0 else 30,
            "request": {"url": f"https://{host}.example/{name}", "headersSize": 400, "bodySize": 0},
            "response": {"status": 200, "bodySize": size, "headersSize": 300, "content": content},
        }
        entries.append({**entry, **led})
    file = Path(folder) / "small.har"
    file.write_text(json.dumps({"log": {"entries": entries}}), encoding="utf-8")
    return file


def shown(times: list[float]) -> str:
    """Return a median with its 95 % interval (bootstrap)."""
    draws = random.Random(1)
    medians = sorted(median(draws.choices(times, k=len(times))) for _ in range(4000))
    return f"{median(times):.0f} ({medians[100]:.0f}–{medians[3900]:.0f}), n = {len(times)}"


def main(http: str = "3") -> None:
    """Print the table of a version of HTTP: its server has the kernel's CUBIC over TCP, Reno over QUIC."""
    paths = {name: bp.Profile.preset(preset, duration=120) for name, preset in PATHS.items()}
    paths["Starlink, Louvain – London"] = bp.Profile.make(site="louvain", to="london", duration=120)
    scheme = "reno" if http == "3" else "cubic"
    print(f"| path | Chromium | simulated, Reno | simulated, CUBIC | {scheme} / Chromium |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        page = write_page(folder)
        for name, path in paths.items():
            real = bp.load_page(page, path, http=http, loads=LOADS, phase=0, browser=True)
            if real["failed"].sum() or not real["valid"].all():
                raise SystemExit(f"{name}: not all loads are complete and valid")
            own = real["plt_ms"].to_list()
            both = [
                bp.load_page(page, path, cc, http=http, loads=LOADS, phase=BROWSER_START_S, pause=0.5)[
                    "plt_ms"
                ].to_list()
                for cc in ("reno", "cubic")
            ]
            ratio = median(both[scheme == "cubic"]) / median(own)
            print(f"| {name} | {shown(own)} | {shown(both[0])} | {shown(both[1])} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
