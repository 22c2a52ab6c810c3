"""A client of the orchestrator's interface for users, without other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.testbed.client.experiments import ExperimentRequests
from bentpipe.testbed.client.nodes import NodeRequests
from bentpipe.testbed.client.requests import TOKEN_VARIABLE, URL, URL_VARIABLE

if TYPE_CHECKING:
    from bentpipe.testbed.schemas.views import JoinToken, NewToken

__all__ = ["TOKEN_VARIABLE", "URL", "URL_VARIABLE", "TestbedClient"]


class TestbedClient(ExperimentRequests, NodeRequests):
    """A client of a testbed.

    Args:
        url: Address of the orchestrator; None: of the variable ``BENTPIPE_TESTBED``, of the credentials file, or
            ``http://127.0.0.1:8791``.
        token: The user's token; None: of ``BENTPIPE_TESTBED_TOKEN`` or of the credentials file.
        credentials: File with both; None: ``~/.config/bentpipe/testbed.json``.

    Raises:
        UserError: No address, or no token.

    Example:
        >>> import bentpipe as bp
        >>> bp.TestbedClient("ftp://here", "a token")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: url: ftp://here; expected http://HOST:PORT or https://HOST:PORT
    """

    __test__ = False  # for pytest: this is no class of tests

    def make_join_token(self, *, name: str | None = None, role: str | None = None) -> JoinToken:
        """Make a token with which one node joins within an hour; `command` is the whole command for that host.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").make_join_token()
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import JoinToken

        return self._ask(JoinToken, "POST", "/v1/tokens/join", body={"name": name, "role": role})

    def make_token(self, name: str, role: str) -> NewToken:
        """Make a token of a user: ``viewer``, ``experimenter``, ``host``, ``reviewer`` or ``admin``.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").make_token("ada", "experimenter")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NewToken

        return self._ask(NewToken, "POST", "/v1/tokens", body={"name": name, "role": role})
