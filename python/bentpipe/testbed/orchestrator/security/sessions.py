"""Sessions of the dashboard: a signed cookie that names a token, and one-time codes that begin one.

The cookie holds no token: it names one by its id, until a time, with an HMAC-SHA256. A token that is revoked ends its
sessions. All orchestrators that share the folder of keys accept each other's sessions; codes and logouts are this
process's own.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSION_MS = 12 * 3_600_000
"""How long a session lasts [ms]."""
CODE_MS = 10 * 60_000
"""How long a one-time code is valid [ms]."""
_KEY_BYTES = 32


@dataclass
class Sessions:
    """Makes and checks sessions.

    Attributes:
        key: Key of the signatures.
        clock: Time [ms since 1970].
    """

    key: bytes
    clock: Callable[[], int]
    _codes: dict[str, tuple[str, int]] = field(default_factory=dict)
    _ended: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, clock: Callable[[], int]) -> Sessions:
        """Read the key in a folder, or make it. Raises `UserError`: it is damaged."""
        file = folder / "session.key"
        with suppress(FileExistsError):
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as new:
                new.write(secrets.token_bytes(_KEY_BYTES))
        key = file.read_bytes()
        if len(key) != _KEY_BYTES:
            raise UserError(f"{len(key)} bytes", where=str(file), expected=f"{_KEY_BYTES}", hint="delete it")
        return cls(key, clock)

    def begin(self, token_id: str) -> str:
        """Return the cookie of a new session of a token."""
        text = f"{token_id}.{self.clock() + SESSION_MS}.{secrets.token_hex(8)}"
        return f"{text}.{self._sign(text)}"

    def token_of(self, cookie: str) -> str | None:
        """Return the id of a session's token; None: no session, or one that is over."""
        text, _, signature = cookie.rpartition(".")
        if not cookie.isascii() or not hmac.compare_digest(signature, self._sign(text)) or cookie in self._ended:
            return None
        token_id, until_at_ms, _ = text.split(".")
        return token_id if int(until_at_ms) > self.clock() else None

    def end(self, cookie: str) -> None:
        """End a session."""
        now_ms = self.clock()
        self._ended = {each: until for each, until in self._ended.items() if until > now_ms}
        if self.token_of(cookie) is not None:
            self._ended[cookie] = now_ms + SESSION_MS

    def new_code(self, token_id: str) -> str:
        """Return a code that begins one session of a token, within ten minutes."""
        code = secrets.token_urlsafe(18)
        self._codes[code] = (token_id, self.clock() + CODE_MS)
        return code

    def take_code(self, code: str) -> str | None:
        """Use up a code; return the id of its token, or None: it is unknown, used or too old."""
        token_id, until_at_ms = self._codes.pop(code, ("", 0))
        return token_id if until_at_ms > self.clock() else None

    def _sign(self, text: str) -> str:
        return hmac.new(self.key, b"bentpipe session " + text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
