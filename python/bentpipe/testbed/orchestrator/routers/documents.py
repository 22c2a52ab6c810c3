"""OpenAPI: bodies are read by bentpipe's records, so their schemas are added to what FastAPI knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

    from bentpipe.records import Record

_TEMPLATE = "#/components/schemas/{model}"
_BODIES: dict[str, type[Record]] = {}


def body(record: type[Record]) -> dict[str, Any]:
    """Return ``openapi_extra`` of a route whose body is a record."""
    _BODIES[record.__name__] = record
    schema = {"$ref": _TEMPLATE.format(model=record.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def add_schemas(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document with the schemas of bodies and of errors, and the bearer token."""
    from bentpipe.testbed.schemas.problem import MEDIA_TYPE, Problem

    if app.openapi_schema is not None:
        return app.openapi_schema
    document = app.openapi()
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    records: list[type[Record]] = [*_BODIES.values(), Problem]
    for record in records:
        schema = record.model_json_schema(by_alias=True, ref_template=_TEMPLATE)
        schemas.update(schema.pop("$defs", {}))
        schemas[record.__name__] = schema
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    error = {"description": "Error", "content": {MEDIA_TYPE: {"schema": {"$ref": _TEMPLATE.format(model="Problem")}}}}
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = error
    return document
