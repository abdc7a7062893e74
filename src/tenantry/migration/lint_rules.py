"""The rules of the hints about statements; their texts are in the table of `lint_rules.md`."""

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

MANUAL = "https://www.postgresql.org/docs/current/"
BAD_ALLOW, OWN_CONNECTION, RUNS_LIVE = "bad-allow", "own-connection", "runs-live"


class Level(StrEnum):
    """How bad a finding is, the worst first.

    * ERROR: it loses data, fails, or breaks the running release.
    * WARNING: it blocks requests while it runs; or a comment has no effect.
    * INFO: it is not checked, or is a trap for later.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Rule(NamedTuple):
    """A rule.

    Attributes:
        engine: ``PostgreSQL`` or ``both``; empty if it is not about a statement.
        about: The statement, in Markdown.
        message: What happens, and what to do instead; ``{table}`` is what the statement names.
        url: The page about the statement in PostgreSQL's manual; empty if there is none.
    """

    level: Level
    engine: str
    about: str
    message: str
    url: str


class Sent(NamedTuple):
    """A statement that a revision sends, for the linter.

    Attributes:
        sql: Its text.
        line: The line of the revision's file that sends it; None if it is not known.
        is_autocommit: Whether it is in an autocommit block of PostgreSQL.
    """

    sql: str
    line: int | None = None
    is_autocommit: bool = False


def _rule(level: str, engine: str, about: str, message: str, page: str) -> Rule:
    name, _, anchor = page.partition("#")
    url = f"{MANUAL}{name}.html{anchor and '#'}{anchor}" if page else ""
    return Rule(Level(level), engine, about, message, url)


_ROWS = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").split("|---|\n")[1]
_CELLS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in _ROWS.splitlines()]
RULES = {name: _rule(*cells) for name, *cells in _CELLS}
"""The rules by their names, which never change: programs and comments in revisions have them."""
