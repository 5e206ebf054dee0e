"""Find the methods that the interceptors of producers and consumers implement."""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.common.exceptions import InvalidSetting


def interceptors_of(given: object) -> Sequence[object]:
    """Check the value of `interceptor.classes`."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidSetting("interceptor.classes must be a list of objects")
    return given


def methods_of(interceptors: Sequence[object], name: str) -> list[Callable[[Any], Any]]:
    """The bound methods with this name, in order."""
    found = [getattr(each, name, None) for each in interceptors]
    return [each for each in found if callable(each)]
