"""Tokens: random texts of which the database has hashes."""

from __future__ import annotations

import hashlib
import secrets


def new_secret(prefix: str) -> str:
    """Return a new token: a prefix that scanners for leaked secrets recognise, and 192 random bits.

    Example:
        >>> new_secret("bpu").startswith("bpu_")
        True
    """
    return f"{prefix}_{secrets.token_urlsafe(24)}"


def hash_of(token: str) -> str:
    """Return the hash by which a token is recognised. It needs no salt: a token is random, not a password."""
    return hashlib.sha256(token.encode()).hexdigest()
