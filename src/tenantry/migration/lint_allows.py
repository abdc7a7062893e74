"""Comments in a revision that allow what a rule is about: ``# tenantry: allow RULE because …``."""

import ast
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import inf

from tenantry.migration.lint import Finding, finding_of
from tenantry.migration.lint_rules import BAD_ALLOW, RULES
from tenantry.migration.revisions import parse

_ALLOW = re.compile(r"\btenantry:\s*allow\b\s*(\S*)(?:\s+because\s+(\S.*))?")


@dataclass(frozen=True, slots=True)
class Allow:
    """A comment that allows a rule in the lines from *first* to *last* of the revision's file.

    Attributes:
        line: The line of the comment.
        fault: Why it allows nothing; None if it is well formed.
        is_judged: Whether it must suppress a finding: not if it is about `downgrade`.
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


def allows_of(source: bytes) -> list[Allow]:
    """Return the comments in a revision that allow a rule, also those that are wrong.

    One in a function is about the statement on its line, or after it if it is alone there. One
    outside functions, or in the docstring of the file, is about the whole file.
    """
    try:
        tree = parse(source)
        return [*_docstring(tree, source), *_comments(tree, source)]
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return []  # it cannot be imported


def without_allowed(findings: Sequence[Finding], allows: Sequence[Allow]) -> list[Finding]:
    """Return *findings* without the allowed ones, and a finding about each comment with a fault."""
    kept = [one for one in findings if not any(allow.covers(one) for allow in allows)]
    return kept + [finding_of(BAD_ALLOW, one.fault, 0, one.line) for one in allows if one.fault]


def _docstring(tree: ast.Module, source: bytes) -> Iterator[Allow]:
    """Yield those in the docstring of the file."""
    if ast.get_docstring(tree, clean=False) is None:
        return
    lines = source.decode(errors="replace").splitlines()[: tree.body[0].end_lineno]
    for number, line in enumerate(lines, start=1):
        if (found := _ALLOW.search(line)) and number >= tree.body[0].lineno:
            yield _allow(number, found, 1, inf)


def _comments(tree: ast.Module, source: bytes) -> Iterator[Allow]:
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    for token in tokenize.tokenize(BytesIO(source).readline):
        if token.type != tokenize.COMMENT or not (found := _ALLOW.search(token.string)):
            continue
        line, is_alone = token.start[0], token.line.lstrip().startswith("#")
        around = [one for one in functions if one.lineno <= line <= (one.end_lineno or 0)]
        place = _statement(around[0], line, is_alone=is_alone) if around else (1, inf)
        yield _allow(line, found, *place, is_judged=[one.name for one in around] != ["downgrade"])


def _allow(
    line: int, found: re.Match[str], first: int, last: float, *, is_judged: bool = True
) -> Allow:
    rule, reason = found.groups()
    fault = None if reason else "it has no reason"
    if rule not in RULES or rule == BAD_ALLOW:
        fault = f"no rule is named {rule!r}"
    return Allow(line, rule, first, last, fault, is_judged)


def _statement(function: ast.FunctionDef, line: int, *, is_alone: bool) -> tuple[int, int]:
    """Return the lines of the statement at *line*, without its block; or of the next one."""
    there, after = [], []
    for node in ast.walk(function):
        if isinstance(node, ast.stmt):
            body, first = getattr(node, "body", None), node.lineno
            last = max(first, body[0].lineno - 1) if body else node.end_lineno or first
            if first <= line <= last and not (body and is_alone):
                there.append((first, last))
            elif first > line:
                after.append((first, last))
    return max(there) if there else min(after, default=(line, line))
