"""Load a pipeline file in the language of its suffix."""

from pathlib import Path
from typing import Final

from headwater.pipelines.spec.document import Document, fail_parsing
from headwater.pipelines.spec.python_document import read_python
from headwater.pipelines.spec.toml_document import read_toml
from headwater.pipelines.spec.yaml_document import read_yaml

_MOST_BYTES: Final = 1 << 20


def load_document(file: Path) -> Document:
    """Load a file. Raises `InvalidPipeline` if it cannot be read."""
    kind = file.suffix.lower()
    if kind == ".py":
        return read_python(file)
    text = _text(file)
    match kind:
        case ".yaml" | ".yml":
            return read_yaml(file, text)
        case ".toml":
            return read_toml(file, text)
        case _:
            raise fail_parsing(file, 1, "a pipeline file must end in .yaml, .toml or .py")


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise fail_parsing(file, 1, f"a pipeline's file has at most {_MOST_BYTES} bytes")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise fail_parsing(file, 1, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise fail_parsing(file, 1, "is not UTF-8") from None
