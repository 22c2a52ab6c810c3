"""YAML without its traps: no anchors (they multiply), no tags, no keys twice, no dates; bounded size and depth."""

from __future__ import annotations

from typing import Any

from bentpipe.errors import UserError, shown

LARGEST = 256 * 1024
"""Largest file [bytes]."""
DEEPEST = 20
"""Deepest nesting."""


def parse_yaml(text: str, where: str) -> Any:  # noqa: ANN401 - plain data
    r"""Parse YAML into dicts, lists, texts, numbers, booleans and None.

    Args:
        text: The text.
        where: Its name in messages.

    Raises:
        UserError: Not YAML, or with anchors, tags, keys twice, more than 256 KiB or twenty levels.

    Example:
        >>> parse_yaml("until: 2027-01-31\nmax: 5", "file")
        {'until': '2027-01-31', 'max': 5}
    """
    import yaml

    if len(text.encode(errors="replace")) > LARGEST:
        raise UserError(f"{len(text)} characters", where=where, expected=f"at most {LARGEST // 1024} KiB")
    _check_events(text, where)
    try:
        return yaml.load(text, Loader=_loader())
    except UserError as error:
        raise error.within(where) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(_problem(error), where=where, expected="YAML") from None


def _check_events(text: str, where: str) -> None:
    """Refuse anchors, tags and deep nesting before anything is built."""
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            place = f"{where}: line {_line(event)}"
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise UserError("an anchor (& or *)", where=place, expected="the value itself")
            if (tag := getattr(event, "tag", None)) is not None:
                raise UserError(f"a tag ({shown(tag)})", where=place, expected="plain values")
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                depth += 1
                if depth > DEEPEST:
                    raise UserError("nested too deeply", where=place, expected=f"at most {DEEPEST} levels")
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                depth -= 1
    except yaml.YAMLError as error:
        raise UserError(_problem(error), where=where, expected="YAML") from None
    except RecursionError:
        raise UserError("nested too deeply", where=where, expected=f"at most {DEEPEST} levels") from None


def _line(event: Any) -> int:  # noqa: ANN401 - an event of PyYAML
    return int(event.start_mark.line) + 1


def _problem(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    place = f"line {mark.line + 1}: " if mark is not None else ""
    return place + " ".join(str(problem or error).split())[:200]


def _loader() -> Any:  # noqa: ANN401 - a class of PyYAML
    import yaml

    class Loader(yaml.SafeLoader):
        """A SafeLoader that leaves times as texts and refuses keys twice."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:  # noqa: ANN401 - classes of PyYAML
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise UserError(f"line {line}: key {shown(key)}", expected="a text as key")
            if key in result:
                raise UserError(f"line {line}: key {shown(key)} stands twice", expected="each key once")
            result[key] = loader.construct_object(value_node, deep=True)
        return result

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return Loader
