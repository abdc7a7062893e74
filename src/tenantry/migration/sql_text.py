"""Split a text of SQL into commands, as far as is needed to send it.

A text can contain several commands, one of which may end the transaction. A command ends at a
semicolon that is not inside a literal, a comment, a name or parentheses.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

TEXTS_REMEMBERED_MAX = 1_024
WORDS_MAX = 3

# Source: PostgreSQL manual, section 4.1, "Lexical structure".
_TOKEN = re.compile(
    r"""
    (?P<skipped>
        \s+
      | --[^\n\r]*
    )
  | (?P<literal>
        (?<!\w)[eE]'(?:[^'\\]|\\.|'')*'
      | '(?:[^']|'')*'
      | "(?:[^"]|"")*"
      | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
    )
  | (?P<word>[^\W\d][\w$]*)
  | (?P<end>;)
  | (?P<open>\()
  | (?P<close>\))
  | (?P<broken>'|"|/\*|\$\$)                          # an opening without its end
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ROUTINE = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\b", re.IGNORECASE)
_TRIGGER = re.compile(r"CREATE\s+(?:TEMP(?:ORARY)?\s+)?TRIGGER\b", re.IGNORECASE)
# Source: PostgreSQL manual, sections 9.17 ("never undone") and 19.6; COPY TO writes a file.
_OUTLIVES_ROLLBACK = re.compile(
    r"""
    \b(?:setval|dblink\w*|pg_terminate_backend|pg_cancel_backend|pg_reload_conf
        |pg_stat_reset\w*|pg_switch_wal|pg_create_restore_point)\b
    | \bCONCURRENTLY\b
    | \bCOPY\b .* \bTO\b \s* (?:PROGRAM\b | E?')
    | ^\s* (?:ALTER\s+SYSTEM | VACUUM | (?:CREATE|DROP)\s+(?:DATABASE|TABLESPACE)) \b
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
# What follows are the rows, which only the driver's own method for COPY sends or receives.
_COPY_ENDS = frozenset({("FROM", "STDIN"), ("TO", "STDOUT")})
_ENDINGS = frozenset({"ABORT", "BEGIN", "COMMIT", "END", "ROLLBACK"})
_TWO_WORD_ENDINGS = frozenset({("START", "TRANSACTION"), ("PREPARE", "TRANSACTION")})
# Wherever a command can begin: at the beginning, or after a semicolon, a line or a comment.
_MAYBE_ENDING = re.compile(
    rf"(?:\A|[;/\n\r])\s*(?:{'|'.join(sorted(_ENDINGS))}|(?:START|PREPARE)\s+TRANSACTION)\b",
    re.IGNORECASE,
)


class NotSplit(Exception):
    """A text cannot be split into commands, because of what is at *index*."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


@dataclass(frozen=True)
class Text:
    """The parsed form of a text of SQL.

    Attributes:
        commands: The first words of each command, in capitals, at most `WORDS_MAX`.
        is_whole: Whether every literal, comment and parenthesis is closed, so that another
            command can follow.
        hides_ending: Whether it is not closed, and may contain a command that ends a transaction.
    """

    commands: tuple[tuple[str, ...], ...]
    is_whole: bool
    hides_ending: bool = False

    @property
    def ends_transaction(self) -> bool:
        """Whether a command in it begins, commits or rolls back a transaction. In doubt, True."""
        return self.hides_ending or any(map(_is_ending, self.commands))


@lru_cache(TEXTS_REMEMBERED_MAX)
def read(sql: str) -> Text:
    """Parse *sql*."""
    commands: list[tuple[str, ...]] = []
    words: list[str] = []
    depth, begin, is_empty, is_closed, word = 0, 0, True, True, ""
    has_body = in_body = False

    def end_command() -> None:
        nonlocal words, is_empty, in_body
        # The first END in the body of a function in SQL is the end of the body.
        is_end_of_body = in_body and words[:1] == ["END"]
        if not is_empty and not is_end_of_body:
            commands.append(tuple(words))
        words, is_empty, in_body = [], True, in_body and not is_end_of_body

    for token, kind, depth in _nested(sql):
        if kind == "end":
            end_command()
            continue
        begin = token.start() if is_empty else begin
        is_empty = False
        is_closed = is_closed and kind != "broken"
        word, before = token.group().upper() if kind == "word" else "", word
        if word and len(words) < WORDS_MAX:
            words.append(word)
        if (before, word, depth) == ("BEGIN", "ATOMIC", 0) and _ROUTINE.match(sql, begin):
            end_command()
            has_body = in_body = True
    end_command()
    is_closed = is_closed and depth == 0
    hides_ending = not is_closed and _MAYBE_ENDING.search(sql) is not None
    return Text(tuple(commands), is_closed and not has_body, hides_ending)


def _tokens(sql: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of *sql*, without comments that PostgreSQL nests."""
    place = 0
    while token := _TOKEN.match(sql, place):
        place = token.end()
        if token.group() == "/*":
            depth = 1
            while depth and (edge := _COMMENT_EDGE.search(sql, place)):
                depth += 1 if edge.group() == "/*" else -1
                place = edge.end()
            if depth == 0:
                continue
        yield token


def _nested(sql: str) -> Iterator[tuple[re.Match[str], str, int]]:
    """Yield each token but space, with its kind, and how many parentheses are open after it.

    A semicolon has the kind ``end`` only where a command ends: outside parentheses.
    """
    depth = 0
    for token in _tokens(sql):
        kind = "literal" if token.lastgroup == "tag" else token.lastgroup or ""
        depth += (kind == "open") - (kind == "close")
        if kind != "skipped":
            yield token, "other" if kind == "end" and depth else kind, depth


def commands(sql: str) -> list[tuple[str, ...]]:
    """Return the tokens of each command in *sql*, without comments; nothing if it is not whole.

    Words are in lower case. A quoted name begins with ``"``. Any other literal is ``''``, whatever
    it contains.
    """
    if not read(sql).is_whole:
        return []
    found: list[list[str]] = [[]]
    for token, kind, _ in _nested(sql):
        text = token.group()
        if kind == "end":
            found.append([])
        elif kind == "literal":
            found[-1].append(text if text.startswith('"') else "''")
        else:
            found[-1].append(text.lower())
    return [tuple(one) for one in found if one]


def split(sql: str) -> Iterator[tuple[int, str]]:
    """Yield each command in *sql*, as it is written there, with the index at which it begins.

    The body of a function (``BEGIN ATOMIC … END``) or of a trigger of SQLite (``BEGIN … END``) is
    part of its command. Its end is the first END at the beginning of a command.

    Raises:
        NotSplit: Something is not closed, or a backslash is outside of literals and comments.
    """
    begin, end, depth, word = -1, 0, 0, ""
    in_body = at_start = False
    for token, kind, depth in _nested(sql):
        before = word
        if kind == "broken" or token.group() == "\\":
            raise NotSplit(token.start())
        was_start, at_start = at_start, kind == "end"
        if at_start and not in_body:
            if begin >= 0:
                yield begin, sql[begin:end]
            begin = -1
            continue
        begin, end = token.start() if begin < 0 else begin, token.end()
        word = token.group().upper() if kind == "word" else ""
        if in_body:
            in_body = not (was_start and word == "END")
        elif word in {"BEGIN", "ATOMIC"} and depth == 0:
            pattern = _ROUTINE if (before, word) == ("BEGIN", "ATOMIC") else _TRIGGER
            in_body = at_start = pattern.match(sql, begin) is not None
    if begin >= 0:
        if depth or in_body:
            raise NotSplit(begin)
        yield begin, sql[begin:end]


def begins_or_ends_transaction(command: str) -> bool:
    """Return whether one *command*, as `split` yields it, begins or ends a transaction."""
    return any(map(_is_ending, read(command).commands[:1]))


def command_until(sql: str, place: int | None) -> tuple[int, str]:
    """Return the command at a place in *sql*, up to the end of the token there; and its line.

    Args:
        sql: The text.
        place: The index of a character; None for the whole first command.

    Literals are ``''``, also one that is not closed. The first line of a command is 1.
    """
    found, begin, end = "", 0, 0
    for token, kind, _ in _nested(sql):
        text = token.group()
        if kind == "end" and (place is None or token.start() < place):
            if place is None and found:
                break
            found = ""
            continue
        is_first = not found
        begin = token.start() if is_first else begin
        is_value = kind == "broken" or (kind == "literal" and not text.startswith('"'))
        found += " " * (token.start() > end and not is_first) + ("''" if is_value else text)
        end = token.end()
        if kind == "broken" or (place is not None and end > place):
            break
    return 1 + sql.count(
        "\n", begin, max(begin, min(end, len(sql) if place is None else place))
    ), found


def needs_client(sql: str) -> bool:
    """Return whether a command in *sql* is ``COPY … FROM STDIN`` or ``COPY … TO STDOUT``."""
    if "COPY" not in sql.upper():
        return False
    words: list[str] = []
    for token, kind, _ in _nested(sql):
        if kind == "end":
            words = []
        elif kind == "word":
            words.append(token.group().upper())
            if words[0] == "COPY" and tuple(words[-2:]) in _COPY_ENDS:
                return True
    return False


def is_last(sql: str) -> bool:
    """Return whether a statement must be the last one in its message.

    The server parses a whole message before it runs the first command. So a setting that changes
    how literals are parsed has no effect on later commands in the same message.
    """
    text = read(sql)
    return not text.is_whole or any(words[:1] == ("SET",) for words in text.commands)


def has_comment(sql: str) -> bool:
    """Return whether *sql* has a comment that begins with ``--``."""
    return any(token.group().startswith("--") for token in _tokens(sql))


def outlives_rollback(sql: str) -> bool:
    """Return whether *sql* can change something that a rollback does not undo.

    The name of a function counts wherever it is: it can be quoted, or before a comment.
    """
    return _OUTLIVES_ROLLBACK.search(sql) is not None


def _is_ending(words: tuple[str, ...]) -> bool:
    if words[:2] in _TWO_WORD_ENDINGS:
        return True
    return words[:1] != () and words[0] in _ENDINGS and "TO" not in words  # to a savepoint
