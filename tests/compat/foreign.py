"""Import client libraries that have no type annotations.

kafka-python warns while it is imported, which must not fail our tests.
"""

import importlib
import warnings
from types import ModuleType


def load(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)
