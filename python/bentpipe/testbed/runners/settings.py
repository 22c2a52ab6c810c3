"""How runners apply kernel settings: the kernel service's client has these methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.runners.request import KernelSetting


class Settings(Protocol):
    """Applies settings in the network namespaces of runs."""

    async def apply(self, run: str, network: int, settings: Sequence[KernelSetting]) -> list[dict[str, object]]:
        """Register the run with a descriptor of its namespace, and apply the settings; return their outcomes.

        Raises:
            UserError: A setting that is not optional was refused; the run is then unknown again.
        """

    async def forget(self, run: str) -> None:
        """Forget the run, if it is known."""
