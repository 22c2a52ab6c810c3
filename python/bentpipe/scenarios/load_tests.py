"""Named tests of latency under load: which flows run beside the pings, one load after the other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, unknown_name
from bentpipe.records import Items, Name, Record, Text
from bentpipe.scenarios.tables import packaged_text

Flows = Annotated[int, Field(ge=0, le=1000)]


class Load(Record):
    """The flows of a load: how many in each direction."""

    down: Flows = 0
    """Flows to the terminal."""
    up: Flows = 0
    """Flows from the terminal."""

    @property
    def directions(self) -> list[Literal["up", "down"]]:
        """Direction of each flow: those down first."""
        down: list[Literal["up", "down"]] = ["down"] * self.down
        up: list[Literal["up", "down"]] = ["up"] * self.up
        return down + up

    @model_validator(mode="after")
    def _check_flows(self) -> Self:
        if not self.down + self.up:
            raise UserError("down and up are 0", expected="at least one flow")
        return self


class LoadTestEntry(Record):
    """A test of ``load_tests.toml``."""

    description: Text
    """One line."""
    loads: Annotated[Items[Load], Field(min_length=1)]
    """Its loads, one after the other, of equal duration."""
    source: Text
    """Source of the definition: one line."""


class LoadTestsFile(Record):
    """``load_tests.toml``."""

    idle_s: Annotated[float, Field(ge=0.1, le=3600)]
    """Idle time before the first load and after the last [s]."""
    ping_every_ms: Annotated[float, Field(ge=1, le=60_000)]
    """Time between two pings [ms]."""
    ping_bytes: Annotated[int, Field(ge=28, le=1500)]
    """Size of a ping and of its reply, with headers [bytes]."""
    load_tests: Annotated[dict[Name, LoadTestEntry], Field(min_length=1)]
    """The tests by name."""


class LoadTest(LoadTestEntry):
    """A test with its name, the value of ``race --test``, and the values that all tests share."""

    name: str
    idle_s: float
    ping_every_ms: float
    ping_bytes: int


@cache
def load_tests() -> Mapping[str, LoadTest]:
    """Return the packaged tests, by name."""
    return MappingProxyType(parse_load_tests(packaged_text("load_tests.toml"), "load_tests.toml"))


def find_load_test(name: str, where: str) -> LoadTest:
    """Return a test by name; `where` names its place in messages. Raises `UserError` with the nearest name.

    Example:
        >>> find_load_test("rrul", "test").loads[0].down
        4
    """
    known = load_tests()
    if name not in known:
        raise unknown_name("test", name, known, f"known: {', '.join(known)}", where)
    return known[name]


def parse_load_tests(text: str, where: str) -> dict[str, LoadTest]:
    """Read TOML text shaped like ``load_tests.toml``; `where` names it in messages. Raise `UserError`."""
    file = LoadTestsFile.from_toml(text, where)
    return {
        name: LoadTest(
            name=name,
            idle_s=file.idle_s,
            ping_every_ms=file.ping_every_ms,
            ping_bytes=file.ping_bytes,
            **dict(entry),
        )
        for name, entry in file.load_tests.items()
    }
