"""Foreign clients that carry no types, loaded by name.

kafka-python warns while it is imported; that is its own business and must not fail our tests.
"""

import importlib
import warnings
from types import ModuleType


def load(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)
