"""Chromium on this machine, driven by Playwright over a pipe: no port listens."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""Names of the program, the first one that exists is taken."""

FLAGS = (
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--log-level=3",
    # Nothing of the browser's own on the path.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=WebRtcHideLocalIpsWithMdns,HttpsUpgrades,LocalNetworkAccessChecks",
)
"""Flags of every browser."""

DEVICES = (
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)
"""Flags of a call: sound of a made microphone, without a question to a user."""


def find_chromium() -> str:
    """Return the program.

    Raises:
        UserError: There is none, or the driver is not installed.
    """
    program = next((each for name in NAMES if (each := shutil.which(name))), None)
    if program is None:
        problem = f"this machine has no browser ({', '.join(NAMES)}); install one, as by `apt-get install chromium`"
        raise UserError(problem, where="browser")
    if find_spec("playwright") is None:
        raise UserError("its driver is not installed; try `pip install 'bentpipe[browser]'`", where="browser")
    return program


def resolving_only(host: str, address: str) -> str:
    """Return the flag of a browser for which no other name exists, so that its own requests stay off the path."""
    return f"--host-resolver-rules=MAP {host} {address}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


def launch(playwright: Playwright, flags: Sequence[str] = ()) -> Browser:
    """Start a browser without a window. As root it has no sandbox, which the kernel would refuse it."""
    own = ("--no-sandbox",) if os.geteuid() == 0 else ()
    return playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS, *own, *flags])
