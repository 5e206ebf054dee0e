"""Check the installation: the PySpark version, and the compiled kernel."""

import os
import re
from pathlib import Path
from typing import Final

from headwater.common.exceptions import HeadwaterError

OLDEST: Final = (4, 2)
NEWEST: Final = (4, 3)

PACKAGE: Final = Path(__file__).parents[1]


class UnsupportedSpark(HeadwaterError):
    """The installed PySpark lacks what the source and the sink need."""


def check_spark_version(version: str | None = None) -> None:
    """Raise `UnsupportedSpark` if PySpark (by default the installed one) is too old.

    Versions newer than the tested ones pass: pip keeps them out, and a user who installs one on
    purpose can try it.
    """
    if version is None:
        import pyspark

        version = pyspark.__version__
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        raise UnsupportedSpark(
            f"PySpark {version} is too old: Headwater needs {_text(OLDEST)} or {_text(NEWEST)}; "
            f"run pip install 'pyspark>={_text(OLDEST)},<{NEWEST[0]}.{NEWEST[1] + 1}'"
        )


def is_in_zip_file(package: Path = PACKAGE) -> bool:
    """Whether the package is imported from a zip file or wheel, as with `--py-files`."""
    return not package.is_dir()


def kernel_warning() -> str | None:
    """Return a warning if this process uses the pure Python kernel unintentionally."""
    from headwater.records.kernel import IS_COMPILED

    if IS_COMPILED or os.environ.get("HEADWATER_PURE") == "1":
        return None
    reason = (
        "a compiled module cannot be imported from a zip file: install the package instead"
        if is_in_zip_file()
        else "it was not built for this Python: install the package with a C compiler present"
    )
    return (
        f"the compiled record kernel is missing in {PACKAGE}, and the slower pure Python kernel "
        f"is used; {reason}"
    )


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
