"""Base of the records at bentpipe's edges: files of a user, `run.json`, manifests. pydantic checks them.

An error is one line in bentpipe's form. Its expected value comes from the record's JSON Schema, which `make docs`
publishes, so a message and the documentation cannot differ. Importing this module loads pydantic, a tenth of a second:
import it where a record is used, never for ``bentpipe --help`` (`tests/test_cli_start.py`).
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bentpipe.errors import UserError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")

Items = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in a file, a tuple in Python."""

LARGEST = 2**63 - 1
"""Largest integer that TOML guarantees."""


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("not one line of text")
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
"""A non-empty line of printable text."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
"""A name in a file, used as a key."""


class Record(BaseModel):
    """A record with typed fields. Unknown keys, other types and numbers that are not finite are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init__(self, /, **fields: Any) -> None:  # noqa: ANN401 - checked against the fields' types
        """Check the fields. Raises `UserError` with the name of the first that is wrong."""
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _user_error(type(self), error, type(self).__name__) from None

    # pydantic then validates nested records without this constructor, so the outermost one reports the error.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def check(cls, data: object, where: str) -> Self:
        """Make a record of parsed JSON or TOML; `where` names the data in messages.

        Raises:
            UserError: The first wrong field, with its place, its value and the expected one.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _user_error(cls, error, where) from None

    @classmethod
    def from_toml(cls, text: str, where: str) -> Self:
        """Make a record of a TOML file's text. Raises as `check` does."""
        return cls.check(parse_toml(text, where), where)

    def replace(self, **fields: Any) -> Self:  # noqa: ANN401 - checked against the fields' types
        """Return the record with other values of some fields. Raises as the constructor does."""
        known = type(self).model_fields
        values = {name: getattr(self, name) for name in self.model_fields_set} | fields
        return type(self)(**{(known[name].alias or name) if name in known else name: values[name] for name in values})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as JSON has it."""
        return self.model_dump(mode="json", by_alias=True)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML text; `where` names it in messages. Raises `UserError`."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # tomllib: absurd numbers are a plain ValueError
        raise UserError(f"not valid TOML: {error}", where=where, code="not_toml") from error


@cache
def json_schema(record: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a record, as files have it."""
    return record.model_json_schema(by_alias=True)


def _user_error(record: type[BaseModel], error: ValidationError, where: str) -> UserError:
    """Convert the first error of a validation."""
    first = error.errors(include_url=False)[0]
    kind, loc = first["type"], first["loc"]
    schema = json_schema(record)
    place, node = _follow(schema, loc[:-1] if kind in ("missing", "extra_forbidden") else loc)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UserError):
        return cause.within(": ".join(part for part in (where, _dotted(place)) if part))
    if kind == "extra_forbidden":
        known = _resolved(schema, node).get("properties", {})
        problem, expected = f"unknown key {shown(loc[-1])}{did_you_mean(str(loc[-1]), known)}", ""
    elif kind == "missing":
        inner = _child(schema, node, loc[-1])
        problem, expected = f"key {loc[-1]!r} is missing", _describe(schema, {} if inner is None else inner)
    elif loc and loc[-1] == "[key]":
        place = place[:-1]
        problem, expected = f"name {shown(loc[-2])}", "lower-case letters, digits, - and _"
    else:
        name = _dotted(place[-1:]) if place and isinstance(place[-1], str) else _dotted(place[-2:])
        place = place[:-1] if place and isinstance(place[-1], str) else place[:-2]
        problem = f"{name} is {shown(first['input'])}" if name else shown(first["input"])
        expected = "at least one entry" if kind == "too_short" else _describe(schema, node)
    inside = ": ".join(part for part in (where, _dotted(place)) if part)
    code = {"missing": "missing_key", "extra_forbidden": "unknown_key"}.get(kind, UserError.code)
    return UserError(problem, where=inside, expected=expected, code=code)


def _dotted(place: Sequence[str | int]) -> str:
    """Format a place: ``flows[0].controller``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _follow(schema: Mapping[str, Any], loc: Sequence[str | int]) -> tuple[list[str | int], Mapping[str, Any]]:
    """Return the place in the data that an error is about, and its schema. The name of a union's branch is no place."""
    node: Mapping[str, Any] = schema
    place: list[str | int] = []
    for part in loc:
        inner = _child(schema, node, part)
        if inner is None:
            break
        place.append(part)
        node = inner
    return place, node


def _child(schema: Mapping[str, Any], node: Mapping[str, Any], part: str | int) -> Mapping[str, Any] | None:
    """Return the schema of a key or an item; None: there is none."""
    node = _resolved(schema, node)
    inner: Any
    if isinstance(part, int):
        prefix = node.get("prefixItems", [])
        inner = prefix[part] if part < len(prefix) else node.get("items")
    elif part in node.get("properties", {}):
        inner = node["properties"][part]
    else:
        inner = next(iter(node.get("patternProperties", {}).values()), node.get("additionalProperties"))
    return inner if isinstance(inner, dict) else None


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references, and an optional value to the value."""
    while True:
        branches = [branch for branch in node.get("anyOf", ()) if branch.get("type") != "null"]
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif len(branches) == 1:
            node = branches[0]
        else:
            return node


def _describe(schema: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """Describe the accepted values in words."""
    node = _resolved(schema, node)
    if "anyOf" in node:
        branches = dict.fromkeys(_describe(schema, branch) for branch in node["anyOf"] if branch.get("type") != "null")
        return " or ".join(each for each in branches if (each, "a number" in branches) != ("a whole number", True))
    if "const" in node or "enum" in node:
        return " or ".join(repr(value) for value in node.get("enum", [node.get("const")]))
    kind = node.get("type")
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(node)
    if kind == "string":
        return "one line of text" if node.get("minLength") else "a text"
    if kind == "array":
        return f"a list of {_plural(_describe(schema, node.get('items') or {}))}"
    return {"boolean": "true or false", "object": "a table"}.get(str(kind), "another value")


def _bounds(node: Mapping[str, Any]) -> str:
    low, high, above = node.get("minimum"), node.get("maximum"), node.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f" from {_number(low)} to {_number(high)}"
    if above is not None:
        return f" above {_number(above)}" + (f", at most {_number(high)}" if high is not None else "")
    if low is not None:
        return f" of at least {_number(low)}"
    return "" if high is None else f" of at most {_number(high)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _plural(one: str) -> str:
    for singular, plural in (
        ("a whole number", "whole numbers"),
        ("a number", "numbers"),
        ("a table", "tables"),
        ("one line of text", "names"),
        ("a text", "texts"),
    ):
        if one.startswith(singular):
            return plural + one.removeprefix(singular)
    return one if one != "another value" else "values"
