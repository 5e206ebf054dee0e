"""What interceptors of producers and of consumers can do: the methods that they have."""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.common.exceptions import InvalidSetting


def interceptors_of(given: object) -> Sequence[object]:
    """What `interceptor.classes` was given, if it can be that."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidSetting("interceptor.classes must be a list of objects")
    return given


def methods_of(interceptors: Sequence[object], name: str) -> list[Callable[[Any], Any]]:
    """Those that have a method of that name, in their order."""
    found = [getattr(each, name, None) for each in interceptors]
    return [each for each in found if callable(each)]
