"""Requests about nodes, and Profiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import UserError
from bentpipe.testbed.client.requests import Requests, path_part

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from bentpipe.testbed.schemas.views import NodeView, ProfileView

PROFILE_S = 150.0
"""Timeout of a request for a node's Profile [s]."""


class NodeRequests(Requests):
    """Shows nodes, changes their settings, and moves Profiles."""

    def nodes(self) -> list[NodeView]:
        """Return all nodes by name.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").nodes()
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NodePage

        return list(self._pages(NodePage, "/v1/nodes", {}))

    def node(self, name: str) -> NodeView:
        """Return a node by name.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").node("attic")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NodeView

        return self._ask(NodeView, "GET", f"/v1/nodes/{path_part(name)}")

    def node_profile(
        self,
        name: str,
        file: str | os.PathLike[str],
        *,
        begin: str | None = None,
        end: str | None = None,
        latency: Literal["auto", "dish", "probes"] = "auto",
    ) -> Path:
        """Store the Profile of a node's link in a time window, made of results of its experiments; return the file.

        Args:
            name: Name of the node.
            file: The Profile's file (Parquet).
            begin: Start of the window, ISO-8601; None: an hour before its end.
            end: End of the window; None: now.
            latency: Delays: of the terminal (``dish``), of probes, or those that cover more seconds (``auto``).

        Raises:
            UserError: No such node, no delays in the window, or a window above 24 hours.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").node_profile("attic", "attic.parquet")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.files import atomic_write
        from bentpipe.times import parse_utc

        query = {
            "from_at_ms": None if begin is None else parse_utc(begin, "begin") // 10**6,
            "to_at_ms": None if end is None else parse_utc(end, "end") // 10**6,
            "latency": latency,
        }
        content = self._request("GET", f"/v1/nodes/{path_part(name)}/profile", query=query, wait_s=PROFILE_S)
        with atomic_write(Path(file)) as opened:
            opened.write(content)
        return Path(file)

    def put_profile(self, file: str | os.PathLike[str], name: str) -> ProfileView:
        """Upload a Profile for ``path: {profile: NAME}``, once for each name.

        Raises:
            UserError: A file that cannot be read or is no Profile, a bad name, or one that another file has.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").put_profile("nowhere.parquet", "mel-lon")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: FILE: nowhere.parquet: cannot be read; expected a Profile (Parquet)
        """
        from bentpipe.testbed.schemas.views import ProfileView

        try:
            content = Path(file).read_bytes()
        except OSError:
            raise UserError(f"{file}: cannot be read", where="FILE", expected="a Profile (Parquet)") from None
        kind = {"Content-Type": "application/octet-stream"}
        path = f"/v1/profiles/{path_part(name)}"
        return self._ask(ProfileView, "PUT", path, body=content, headers=kind, wait_s=PROFILE_S)

    def change_node(
        self,
        name: str,
        *,
        paused: bool | None = None,
        draining: bool | None = None,
        scavenger: bool | None = None,
        tags: Sequence[str] | None = None,
    ) -> NodeView:
        """Change settings of an own node; None: stays. The host's policy at the node wins over them.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").change_node("attic", paused=True)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NodeView

        settings = {"paused": paused, "draining": draining, "scavenger": scavenger, "tags": tags}
        changes = {key: entry for key, entry in settings.items() if entry is not None}
        return self._ask(NodeView, "PATCH", f"/v1/nodes/{path_part(name)}", body=changes)
