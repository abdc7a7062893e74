"""The file of settings: lines of ``NAME=value``."""

from io import StringIO
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream


class BadEnvFile(ValueError):
    """The file cannot be read; the message says which line, or why."""


def read(path: Path) -> dict[str, str | None]:
    """Return the settings in the file *path*; empty if there is no file.

    Raises:
        BadEnvFile: A line cannot be read: otherwise it would silently have no effect.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        return {}
    except OSError as error:
        raise BadEnvFile(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise BadEnvFile(f"{path} must be UTF-8 text.") from error
    for line in parse_stream(StringIO(text)):
        if line.error:
            raise BadEnvFile(
                f"Line {line.original.line} of {path} cannot be read: "
                "write NAME=value, and close every quotation mark."
            )
    return dotenv_values(stream=StringIO(text))
