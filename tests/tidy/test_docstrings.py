"""Check the form of docstrings in src: a summary line, then a blank line (PEP 257)."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SUMMARY_MAX: Final = 80
DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the lines of each docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text.splitlines()


def problems_of(source: str) -> list[tuple[int, str]]:
    found = []
    for number, (summary, *rest) in docstrings(source):
        if len(summary) > SUMMARY_MAX:
            found.append((number, f"summary line of {len(summary)} characters"))
        if rest and rest[0].strip():
            found.append((number, "summary of more than one line"))
    return found


def test_docstrings_start_with_a_short_summary_line() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {problem}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, problem in problems_of(path.read_text("utf-8"))
    ]
    assert found == []


def test_long_and_run_on_summaries_are_found() -> None:
    source = f'''"""{"x" * 81}"""
class A:
    """{"x" * 80}"""
    async def b(self):
        """One sentence
        on two lines."""
'''
    assert problems_of(source) == [
        (1, "summary line of 81 characters"),
        (5, "summary of more than one line"),
    ]
