"""ID tokens: signature, issuer, audience, times and nonce (OpenID Connect Core 1.0, section 3.1.3.7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.orchestrator.security.oidc.errors import LoginRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from joserfc.jwk import ECKey, RSAKey

KEY_TYPES = {"RS256": "RSA", "ES256": "EC"}
"""Algorithms that are accepted, and the type of their keys: none without a key, none with a shared one."""
SKEW_S = 60
"""By how much the provider's clock may differ."""
OLDEST_S = 600
"""How long before its arrival an ID token was made, at most."""
LEAST_RSA_BITS = 2048
_LONGEST_SUBJECT = 255
_LARGEST_TIME_S = 1e12


class UnknownKeyError(LoginRefusedError):
    """No key of the provider fits the ID token; the provider may have new ones."""


@dataclass(frozen=True)
class Identity:
    """A person of a provider.

    Attributes:
        issuer: Address of the provider.
        subject: The person's name there, which never changes.
        name: Name to show; it identifies nobody.
        claims: All that the ID token says.
    """

    issuer: str
    subject: str
    name: str
    claims: dict[str, Any] = field(repr=False)

    @property
    def key(self) -> str:
        """Issuer and subject: by this alone a user is found again."""
        return f"{self.issuer} {self.subject}"

    def groups(self, claim: str) -> list[str]:
        """Return the groups of a claim."""
        groups = self.claims.get(claim)
        groups = [groups] if isinstance(groups, str) else groups
        return [each for each in groups if isinstance(each, str)] if isinstance(groups, list) else []


def verify(token: str, keys: Sequence[dict[str, Any]], *, issuer: str, client: str, nonce: str, now_s: int) -> Identity:
    """Return who an ID token is about.

    Args:
        token: The token.
        keys: Keys of the provider (JWKS).
        issuer: Address of the provider.
        client: Name of this client.
        nonce: Of the attempt.
        now_s: The time [s since 1970].

    Raises:
        UnknownKeyError: No key fits.
        LoginRefusedError: Anything else that is wrong; its line never shows the token.
    """
    from joserfc import jws, jwt
    from joserfc.errors import JoseError

    registry = jws.JWSRegistry(algorithms=list(KEY_TYPES), strict_check_header=False)
    registry.max_header_length = 4096
    try:
        header = jws.extract_compact(token.encode(), registry=registry).headers()
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in KEY_TYPES:
            raise _refused("algorithm", "RS256 or ES256")
        key = _key_for(keys, algorithm, key_id)
        claims = jwt.decode(token, key, algorithms=[algorithm], registry=registry).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        raise _refused("signature", "one by a key of the provider") from None
    _check_claims(claims, issuer, client, nonce, now_s)
    subject = claims["sub"]
    name = claims.get("preferred_username") or claims.get("name")
    return Identity(issuer, subject, name if isinstance(name, str) else "", claims)


def _check_claims(claims: dict[str, Any], issuer: str, client: str, nonce: str, now_s: int) -> None:
    if claims.get("iss") != issuer:
        raise _refused("issuer (iss)", "the one that this testbed asked")
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or client not in audiences:
        raise _refused("audience (aud)", "this testbed")
    if ("azp" in claims or len(audiences) > 1) and claims.get("azp") != client:
        raise _refused("authorized party (azp)", "this testbed")
    if not _number(claims.get("exp")) or claims["exp"] <= now_s - SKEW_S:
        raise _refused("end (exp)", "one in the future")
    if not _number(claims.get("iat")) or not now_s - OLDEST_S <= claims["iat"] <= now_s + SKEW_S:
        raise _refused("time (iat)", "one of the last ten minutes; compare the clocks")
    if "nbf" in claims and not (_number(claims["nbf"]) and claims["nbf"] <= now_s + SKEW_S):
        raise _refused("begin (nbf)", "one in the past")
    if claims.get("nonce") != nonce:
        raise _refused("nonce", "that of this login")
    subject = claims.get("sub")
    is_text = isinstance(subject, str) and subject.isascii() and subject.isprintable()
    if not is_text or not 0 < len(str(subject)) <= _LONGEST_SUBJECT:
        raise _refused("subject (sub)", f"at most {_LONGEST_SUBJECT} characters of ASCII")


def _number(value: object) -> bool:
    """Return whether a value is a time: neither a truth value, nor infinite, nor NaN, which is never too early."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST_TIME_S


def _refused(part: str, expected: str) -> LoginRefusedError:
    return LoginRefusedError(f"the provider's ID token has a wrong {part}; expected {expected}")


def _key_for(keys: Sequence[dict[str, Any]], algorithm: str, key_id: object) -> RSAKey | ECKey:
    """Return the provider's key of an algorithm with an id; a token without one needs that there is one key."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey

    fitting: list[RSAKey | ECKey] = []
    for each in keys:
        if each.get("kty") != KEY_TYPES[algorithm] or each.get("use", "sig") != "sig":
            continue
        if each.get("alg", algorithm) != algorithm or (key_id is not None and each.get("kid") != key_id):
            continue
        try:
            if algorithm == "RS256":
                rsa = RSAKey.import_key({name: each[name] for name in ("kty", "n", "e")})
                if rsa.public_key.key_size >= LEAST_RSA_BITS:
                    fitting.append(rsa)
            elif each.get("crv") == "P-256":
                fitting.append(ECKey.import_key({name: each[name] for name in ("kty", "crv", "x", "y")}))
        except (JoseError, ValueError, TypeError, KeyError):
            continue
    if len(fitting) != 1:
        raise UnknownKeyError("the provider's ID token is signed by a key that the provider does not publish")
    return fitting[0]
