"""Who may do what: the certificate authority, tokens, roles, checks of each request."""
