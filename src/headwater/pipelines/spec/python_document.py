"""Read pipelines in Python: one decorated function is one step.

    from headwater.pipelines import pipeline

    @pipeline(
        name="big-orders",
        sources={"orders": {"subscribe": "orders", "decode": {"value": {"json": "amount double"}}}},
        sinks=[{"topic": "big-orders"}],
    )
    def big(orders):
        return orders.where("amount > 100")

The parameters name the sources or steps that the function takes. A sink without `from` writes what
the function returns. Note: the file is imported when the pipeline is read, also by `check`, so it
should only define things.
"""

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from headwater.pipelines.spec.document import Document, Place, fail_parsing

_MARK: Final = "__headwater_pipeline__"

Step = TypeVar("Step", bound=Callable[..., Any])


def pipeline(**values: Any) -> Callable[[Step], Step]:
    """Turn a function into a pipeline; keywords are the keys of a pipeline file."""

    def mark(function: Step) -> Step:
        setattr(function, _MARK, values)
        return function

    return mark


def read_python(file: Path) -> Document:
    """Load a file. Raises `InvalidPipeline` unless one function has `@pipeline`."""
    module = load_module(file)
    marked = [
        each
        for each in vars(module).values()
        if hasattr(each, _MARK) and getattr(each, "__module__", None) == module.__name__
    ]
    if len(marked) != 1:
        raise fail_parsing(file, 1, f"{len(marked)} functions have @pipeline; there must be one")
    function = marked[0]
    values = dict(getattr(function, _MARK))
    values.setdefault("version", 1)
    values.setdefault("name", function.__name__)
    inputs = list(inspect.signature(function).parameters)
    step = {"function": function.__name__, "inputs": inputs}
    values["steps"] = {**(values.get("steps") or {}), function.__name__: step}
    sinks = values.get("sinks")
    if isinstance(sinks, list):
        values["sinks"] = [
            {"from": function.__name__, **each} if isinstance(each, dict) else each
            for each in sinks
        ]
    lines = dict(_lines(file, function.__name__))
    return Document(file=file, value=values, lines=lines, module=module)


def load_module(file: Path) -> ModuleType:
    """Import a file as a module whose name cannot collide with other files."""
    if not file.is_file():
        raise fail_parsing(file, 1, "there is no such file")
    name = "headwater_pipeline_" + "".join(
        letter if letter.isalnum() else "_" for letter in str(file.resolve())
    )
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise fail_parsing(file, 1, "not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise fail_parsing(file, error.lineno or 1, f"invalid Python: {error.msg}") from None
    return module


def _lines(file: Path, name: str) -> Iterator[tuple[Place, int]]:
    """Return the lines of the decorator's literals."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name != name:
            continue
        yield (), node.lineno
        yield ("steps", name), node.lineno
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            for keyword in decorator.keywords:
                if keyword.arg is not None:
                    yield (keyword.arg,), keyword.value.lineno
                    yield from _inner_lines(keyword.value, (keyword.arg,))


def _inner_lines(node: ast.expr, place: Place) -> Iterator[tuple[Place, int]]:
    match node:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant):
                    inner = (*place, str(key.value))
                    yield inner, key.lineno
                    yield from _inner_lines(value, inner)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for at, element in enumerate(elements):
                yield (*place, at), element.lineno
                yield from _inner_lines(element, (*place, at))
