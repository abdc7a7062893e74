"""Count archaic and vague words in prose: what ``make words`` runs.

Prose is docstrings, comments, public strings, names of tests, and Markdown. The result is a rate
per 1,000 words for each area; the exit status is 1 if a rate is above its limit.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Words to avoid, per 1,000 words of an area.
LIMIT = 1.0
FILES_SHOWN = 25

AVOIDED = (
    r"tells?|telling|told|whoever|whosever|whose|nobody|somebody|anybody|everybody|meanwhile",
    r"for ?ever|any more|anew|afresh|who asks|what is asked|takes? note",
    r"lets? (?:\w+ )?(?:in|go)|letting (?:in|go)|takes? part|took part|taking part",
    r"stands?|stood|standing|dear|apart|deaf|sight|looks?|looked|looking",
    r"comes? upon|came upon|coming upon|becomes? of|became of|(?:is|are|was|were) content",
    r"beside (?:it|them)|(?:is|are|was|were) meant|dead at once|dies? with (?:it|them)",
)
# Technical uses. "Look up" is a read by a key; `console.apart` names a member of a message.
ALLOWED = (r"(?:looks?|looked|looking)[ -]up\b", r"stand-?ins?\b", r"console\.apart\b")
_COUNTED = re.compile(rf"\b(?!{'|'.join(ALLOWED)})(?:{'|'.join(AVOIDED)})\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_MARKDOWN_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
# A string comes before a comment, so that "http://" begins none.
_JAVASCRIPT = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)|(?P<comment>//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)

# The kind of prose, the folder, and the pattern of its files.
SOURCES = (
    ("Markdown", ".", "*.md"),
    ("Markdown", "docs", "**/*.md"),
    *(("Python", folder, "**/*.py") for folder in ("tools", "harness", "testkit")),
    ("Python", "src/tenantry", "*.py"),
    *(
        ("Python", str(folder.parent.relative_to(ROOT)), "**/*.py")
        for folder in sorted((ROOT / "src/tenantry").glob("*/__init__.py"))
    ),
    ("JavaScript", "src/tenantry/console/static", "*.js"),
    ("Python of tests", "tests", "**/*.py"),
    ("names of tests", "tests", "**/test_*.py"),
)


class Finding(NamedTuple):
    """A word to avoid, and where it is."""

    path: Path
    line: int
    word: str
    context: str


def main() -> int:
    """Print the rate of each area; return 1 if one is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", action="store_true", help="list the files with the most")
    parser.add_argument("--lines", metavar="PATH", help="list the lines below a path")
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    findings: dict[str, list[Finding]] = defaultdict(list)
    for kind, folder, pattern in SOURCES:
        area = kind if folder == "." else f"{kind}, {folder}"
        for path in sorted({*(ROOT / folder).glob(pattern)} - {Path(__file__)}):
            for line, text in prose(kind, path.read_text()):
                counts[area] += len(_WORD.findall(text))
                findings[area] += [Finding(path, *found) for found in avoided(line, text)]
    if chosen.lines:
        _print_lines(findings, ROOT / chosen.lines)
    if chosen.files:
        _print_files(findings)
    return _print_areas(counts, findings)


def prose(kind: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file in pieces, each with the number of its first line."""
    if kind == "Markdown":
        yield 1, _MARKDOWN_CODE.sub(lambda code: "\n" * code[0].count("\n"), source)
    elif kind == "JavaScript":
        for match in _JAVASCRIPT.finditer(source):
            if match["comment"] or " " in match["text"]:
                yield source.count("\n", 0, match.start()) + 1, match[0]
    elif kind == "names of tests":
        for match in re.finditer(r"def test_(\w+)", source):
            yield source.count("\n", 0, match.start()) + 1, match[1].replace("_", " ")
    else:
        yield from _comments(source)
        # The strings of a test are values that it sends.
        yield from _strings(source, only_docstrings=kind == "Python of tests")


def avoided(line: int, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the word and its context for each word to avoid."""
    for match in _COUNTED.finditer(text):
        context = text[max(0, match.start() - 40) : match.end() + 40].split()
        yield line + text.count("\n", 0, match.start()), match[0], " ".join(context)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _strings(source: str, *, only_docstrings: bool) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and the other strings that hold more than one word."""
    nodes = list(ast.walk(ast.parse(source)))
    statements = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and (node in statements or not only_docstrings):
            text = node.value
            if isinstance(text, str) and " " in text:
                yield node.lineno, text


def _print_lines(findings: dict[str, list[Finding]], below: Path) -> None:
    found = [one for area in findings.values() for one in area if one.path.is_relative_to(below)]
    for one in sorted(found, key=lambda one: (one.path, one.line)):
        sys.stdout.write(f"{one.path.relative_to(ROOT)}:{one.line}: {one.word}: {one.context}\n")


def _print_files(findings: dict[str, list[Finding]]) -> None:
    files = Counter(one.path for area in findings.values() for one in area)
    for path, count in files.most_common(FILES_SHOWN):
        sys.stdout.write(f"{count:5}  {path.relative_to(ROOT)}\n")


def _print_areas(counts: Counter[str], findings: dict[str, list[Finding]]) -> int:
    sys.stdout.write(f"{'area':42}{'words':>9}{'avoided':>9}{'per 1,000':>11}\n")
    above = False
    for area, words in counts.items():
        rate = 1000 * len(findings[area]) / max(words, 1)
        above |= rate > LIMIT
        sys.stdout.write(f"{area:42}{words:9,}{len(findings[area]):9,}{rate:11.2f}\n")
    words, avoided = counts.total(), sum(map(len, findings.values()))
    sys.stdout.write(f"{'all':42}{words:9,}{avoided:9,}{1000 * avoided / words:11.2f}\n")
    if above:
        sys.stderr.write(f"An area has more than {LIMIT} words to avoid per 1,000.\n")
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
