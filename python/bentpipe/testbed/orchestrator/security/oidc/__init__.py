"""Login at an OpenID Connect provider: authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636)."""
