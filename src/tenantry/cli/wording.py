"""The words of texts: in a fleet, a tenant is a database, and the catalog is its state."""

import re
from typing import Any

import typer.main

FLEET = "tenantry.fleet"
"""The key in the meta of a command's context, while it works on a fleet."""
_WORDS = {
    "active tenant to": "database to",
    "tenant": "database",
    "tenants": "databases",
    "tenant database": "database",
    "tenant databases": "databases",
    "tenant's database": "database",
    "catalog": "state",
    "tenantry migrate": "tenantry fleet",
    "tenantry migrate all": "tenantry fleet migrate",
    "`tenantry tenant list` lists the tenants": "Your list names them",
    "Run `tenantry doctor`": "Check --state",
}
_FOUND = re.compile(
    rf"(?<![\w-])({'|'.join(map(re.escape, sorted(_WORDS, key=len, reverse=True)))})(?![\w-])",
    re.IGNORECASE,
)


def of_fleet(text: str) -> str:
    """Return a text of ours in the words of a fleet. It must not contain names of databases."""

    def word(found: "re.Match[str]") -> str:
        said = _WORDS.get(found[0]) or _WORDS[found[0].lower()]
        return said[0].upper() + said[1:] if found[0][0].isupper() else said

    return _FOUND.sub(word, text)


def named(text: str, context: Any = None) -> str:
    """Return a text of ours in the words of the running command: see `of_fleet`."""
    # Typer has no public function for this.
    running = context or typer.main.get_current_context(silent=True)  # type: ignore[attr-defined]
    return of_fleet(text) if running is not None and FLEET in running.meta else text
