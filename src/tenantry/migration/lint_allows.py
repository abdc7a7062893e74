"""Comments in a revision that allow what a rule is about: ``# tenantry: allow RULE because …``."""

import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import inf

from tenantry.migration.lint import Finding, finding_of
from tenantry.migration.lint_rules import BAD_ALLOW, RULES
from tenantry.migration.revisions import Revision
from tenantry.migration.sql_files import SqlRevision

FINDINGS_MAX = 50
"""The findings of one revision that no comment allows; later ones are left out."""

_ALLOW = re.compile(r"\btenantry:\s*allow\b\s*(\S*)(?:\s+because\s+(\S.*))?")
_FUNCTION = re.compile(r"^def (\w+)", re.MULTILINE)
_BETWEEN = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


@dataclass(frozen=True, slots=True)
class Allow:
    """A comment that allows a rule in the lines from *first* to *last* of the revision's file.

    Attributes:
        line: The line of the comment.
        fault: Why it allows nothing; None if it is well formed.
        is_judged: Whether it must be about a finding: not if it has a fault, or is in `downgrade`.
    """

    line: int
    rule: str
    first: int
    last: float
    fault: str | None
    is_judged: bool

    def covers(self, finding: Finding) -> bool:
        """Return whether it allows *finding*; one without a line, only for the whole file."""
        is_there = self.first <= (finding.line or 1) <= self.last
        return self.fault is None and finding.rule == self.rule and is_there


def allows_of(revision: Revision) -> list[Allow]:
    """Return the comments in a revision that allow a rule, also those that are wrong.

    One that begins its line without indentation, or is in the docstring of the file, is about the
    whole file. Any other is about the statement on its line, or after it if it is alone there. In a
    file of SQL, each is about the whole file.
    """
    source = revision.content
    if isinstance(revision, SqlRevision):
        return [
            _allow(number, found, (1, inf), source)
            for number, line in enumerate(source.decode().splitlines(), start=1)
            for found in _ALLOW.finditer(line.partition("--")[2])
        ]
    try:
        tokens = list(tokenize.tokenize(BytesIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return []  # it cannot be imported
    statements, first = list[tuple[int, float]](), 0
    for token in tokens:
        if token.type == tokenize.NEWLINE:
            statements.append((first, token.start[0]))
            first = 0
        elif not first and token.type not in _BETWEEN:
            first = token.start[0]
    found: list[Allow] = []
    for token in tokens:
        # A text outside functions is the docstring.
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not token.start[1]):
            for number, text in enumerate(token.string.splitlines(), start=token.start[0]):
                after = [one for one in statements if one[1] >= number]
                place = after[0] if token.start[1] and after else (1, inf)
                found += [_allow(number, one, place, source) for one in _ALLOW.finditer(text)]
    return found


def _allow(line: int, found: re.Match[str], place: tuple[int, float], source: bytes) -> Allow:
    rule, reason = found.groups()
    fault = None if reason else "it has no reason"
    if rule not in RULES or rule == BAD_ALLOW:
        fault = f"no rule is named {rule!r}"
    before = "\n".join(source.decode(errors="replace").splitlines()[:line])
    is_undo = place != (1, inf) and _FUNCTION.findall(before)[-1:] == ["downgrade"]
    return Allow(line, rule, *place, fault, fault is None and not is_undo)


def without_allowed(findings: Sequence[Finding], allows: Sequence[Allow]) -> list[Finding]:
    """Return the first *findings* that are not allowed, and one about each comment with a fault."""
    kept = [one for one in findings if not any(allow.covers(one) for allow in allows)]
    return kept[:FINDINGS_MAX] + [
        finding_of(BAD_ALLOW, one.fault, 0, one.line) for one in allows if one.fault
    ]
