"""How a text of SQL is made up of commands, as far as sending it asks for that.

A text can hold several commands, and the end of a transaction among them. Where one ends
is told by a semicolon that is not inside a literal, a comment, a name or a parenthesis.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

TEXTS_REMEMBERED_MAX = 1_024
WORDS_MAX = 3

# Source: PostgreSQL manual, section 4.1, "Lexical structure".
_TOKEN = re.compile(
    r"""
    (?P<skipped>
        \s+
      | --[^\n]*
      | /\*(?:(?!/\*|\*/).)*\*/                       # one that holds no other
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
  | (?P<broken>'|"|/\*|\$\$)                          # it begins, and never ends
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDINGS = frozenset({"ABORT", "BEGIN", "COMMIT", "END", "ROLLBACK"})
_TWO_WORD_ENDINGS = frozenset({("START", "TRANSACTION"), ("PREPARE", "TRANSACTION")})


@dataclass(frozen=True)
class Text:
    """What is known of a text of SQL.

    Attributes:
        commands: The words that each command begins with, in capitals, at most three.
        is_whole: Nothing in it stays open, so that another command can follow.
    """

    commands: tuple[tuple[str, ...], ...]
    is_whole: bool

    @property
    def ends_transaction(self) -> bool:
        """Whether a command in it begins, commits or rolls back a transaction."""
        return any(map(_is_ending, self.commands))


@lru_cache(TEXTS_REMEMBERED_MAX)
def read(sql: str) -> Text:
    """Return what is known of *sql*."""
    commands: list[tuple[str, ...]] = []
    words: list[str] = []
    depth, is_empty, is_whole = 0, True, True
    for token in _TOKEN.finditer(sql):
        kind = token.lastgroup if token.lastgroup != "tag" else "literal"
        if kind == "skipped":
            continue
        if kind == "end" and depth == 0:
            if not is_empty:
                commands.append(tuple(words))
            words, is_empty = [], True
            continue
        is_empty = False
        depth += (kind == "open") - (kind == "close")
        is_whole = is_whole and kind != "broken"
        if kind == "word" and len(words) < WORDS_MAX:
            words.append(token.group().upper())
        elif kind == "word" and token.group().upper() == "ATOMIC":
            # The body of a function in SQL, whose commands are its own. Nothing can be told
            # of what comes after it.
            return Text((*commands, tuple(words)), is_whole=False)
    if not is_empty:
        commands.append(tuple(words))
    return Text(tuple(commands), is_whole and depth == 0)


def joined(*texts: str) -> str:
    """Return several commands as one text."""
    # On a line of its own, the semicolon is not in a comment.
    return "\n;\n".join(texts)


def _is_ending(words: tuple[str, ...]) -> bool:
    if words[:2] in _TWO_WORD_ENDINGS:
        return True
    return words[:1] != () and words[0] in _ENDINGS and "TO" not in words  # to a savepoint
