"""Folders stay small enough to be read as a list."""

from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "headwater"
LARGEST: Final = 22
# One module per API.
EXEMPT: Final = {PACKAGE / "protocol" / "messages"}


def test_no_folder_has_more_modules_than_a_newcomer_can_survey() -> None:
    modules = Counter(path.parent for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    large = {
        str(folder.relative_to(ROOT)): count
        for folder, count in modules.items()
        if count > LARGEST and folder not in EXEMPT
    }
    assert large == {}


def test_every_package_says_what_is_in_it() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("__init__.py")
        if not path.read_text("utf-8").startswith('"""')
    ]
    assert silent == []
