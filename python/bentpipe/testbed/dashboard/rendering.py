"""Templates: escaping on, no inline scripts and styles, addresses of static files with the hash of their content."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bentpipe.testbed.dashboard import formats, states
from bentpipe.testbed.dashboard.static_files import address_of

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy of every page: nothing from elsewhere, nothing inline."""


def render(template: str, **content: Any) -> str:  # noqa: ANN401 - a template's content
    """Return a page."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bentpipe.testbed.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    for function in (
        formats.name,
        formats.scaled,
        formats.size,
        formats.rate,
        formats.milliseconds,
        formats.duration,
        formats.utc,
        formats.utc_text,
        formats.clock,
        formats.ago,
    ):
        environment.filters[function.__name__] = function
    environment.filters["state"] = states.badge
    environment.globals["static"] = address_of
    environment.globals["marks"] = states.mark_of
    environment.globals["legend"] = states.LEGEND
    return environment


def _finalize(value: object) -> object:
    """Replace what no page should hold; markup is the template's own."""
    return formats.plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
