"""The OpenAPI document, made from the table of routes."""

import re
from collections.abc import Sequence
from typing import Any, Final

from headwater.rest.media_types import JSON, V2, V2_EMBEDDED
from headwater.rest.openapi_schemas import (
    ERROR,
    PATH_NUMBERS,
    QUERY_PARAMETERS,
    V2_SCHEMAS,
    V3_SCHEMAS,
)
from headwater.rest.rest_request import Operation, RestRoute

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def openapi_document(routes: Sequence[RestRoute], *, version: str) -> dict[str, Any]:
    """The document for these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        paths[each.template] = {
            "parameters": [_path_parameter(name) for name in _PARAMETER.findall(each.template)],
            **{
                method.lower(): _operation(each, operation)
                for method, operation in each.operations.items()
            },
        }
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Headwater REST API",
            "version": version,
            "description": "Compatible with the API of Confluent's REST Proxy, v2 and v3.",
            "license": {"name": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": {"Error": ERROR, **V2_SCHEMAS, **V3_SCHEMAS}},
    }


def _operation(route: RestRoute, operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [route.tag],
        "responses": _responses(route, operation),
    }
    if operation.query:
        found["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": QUERY_PARAMETERS[name]}
            for name in operation.query
        ]
    if operation.body is not None:
        types = _body_types(route, operation)
        found["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {kind: {"schema": _ref(operation.body)} for kind in types},
        }
    return found


def _responses(route: RestRoute, operation: Operation) -> dict[str, Any]:
    plain = JSON if route.is_v3 else V2
    success: dict[str, Any] = {"description": "Success."}
    if operation.answer is not None:
        types = _formats() if operation.embedded_answer else [plain]
        success["content"] = {kind: {"schema": _ref(operation.answer)} for kind in types}
    error = {"description": "Error.", "content": {plain: {"schema": _ref("Error")}}}
    found = {str(operation.status): success, "default": error}
    if operation.status == 201:
        # A topic that is only validated.
        found["200"] = success
    return found


def _body_types(route: RestRoute, operation: Operation) -> list[str]:
    if route.is_v3:
        return [JSON]
    return _formats() if operation.embedded_body else [V2]


def _formats() -> list[str]:
    return list(V2_EMBEDDED)


def _path_parameter(name: str) -> dict[str, Any]:
    kind = {"type": "integer", "minimum": 0} if name in PATH_NUMBERS else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": kind}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
