"""Turn a response of any API into an error: replace every error code in it.

So a test can make a broker return any error at any step.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from headwater.common.error_codes import ErrorCode
from tests.simulation.fakes.mock_broker import Afterwards


def saying(code: ErrorCode) -> Afterwards:
    """Execute a request, then answer with the error everywhere."""
    return Afterwards(lambda answer: with_code(answer, code))


def with_code(answer: Any, code: ErrorCode) -> Any:
    changes = {each.name: _changed(getattr(answer, each.name), code) for each in fields(answer)}
    return replace(answer, **changes)


def _changed(value: object, code: ErrorCode) -> object:
    if isinstance(value, ErrorCode):
        return code
    if isinstance(value, tuple):
        return tuple(_changed(each, code) for each in value)
    return with_code(value, code) if is_dataclass(value) else value
