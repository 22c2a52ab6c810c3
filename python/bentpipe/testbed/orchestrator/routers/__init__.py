"""HTTP: a router translates a request to a call of a service, and its result or error to an answer."""
