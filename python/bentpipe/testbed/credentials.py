"""The file with a user's address and token."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from bentpipe.errors import UserError


def credentials_file() -> Path:
    """Return the file with a user's address and token: ``$XDG_CONFIG_HOME/bentpipe/testbed.json``."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(base) / "bentpipe" / "testbed.json"


def save_credentials(url: str, token: str, path: Path | None = None) -> Path:
    """Store an address and a token so that their owner alone reads them; return the file."""
    path = path or credentials_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"url": url, "token": token}, file)
    temporary.replace(path)
    return path


def read_credentials(path: Path) -> tuple[str | None, str | None]:
    """Return address and token of a file; None, None: there is none. Raises `UserError`: others may read it."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None, None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("cannot be read", where=str(path), expected="JSON with url and token") from error
    if stat.S_IMODE(mode) & 0o077:
        raise UserError(f"mode {stat.S_IMODE(mode):o}", where=str(path), expected="600", hint=f"chmod 600 {path}")
    try:
        data = json.loads(text)
        return str(data["url"]), str(data["token"])
    except (ValueError, KeyError, TypeError):
        raise UserError("is damaged", where=str(path), expected="JSON with url and token") from None
