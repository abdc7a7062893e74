"""What writers asked and readers saw, and what must be true of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ABSENT = ""
"""What readers see of a post that is not published."""


@dataclass(kw_only=True)
class Change:
    """A request that may change a post.

    Attributes:
        who: The writer.
        what: Such as ``save``.
        began: When it was sent, in seconds.
        ended: When its response came; None if none came.
        status: Of the response; None if none came.
        text: What it saves; None if it saves nothing.
        based_on: The entity tag that it required.
        live: What readers may see because of it: texts, or `ABSENT`. Empty if it changes nothing
            for them. Of a request without response, what it could have done.
    """

    who: str
    what: str
    began: float
    ended: float | None = None
    status: int | None = None
    text: str | None = None
    based_on: str | None = None
    live: frozenset[str] = frozenset()

    @property
    def is_acknowledged(self) -> bool:
        """Whether its effect was promised."""
        return self.status is not None and self.status < 300

    @property
    def is_refused(self) -> bool:
        """Whether it must have had no effect."""
        return self.status is not None and self.status < 500 and not self.is_acknowledged


@dataclass(frozen=True)
class Sight:
    """What a reader saw of a post, and when."""

    began: float
    ended: float
    text: str


@dataclass
class Post:
    """The history of one post."""

    id: str
    slug: str
    began: float
    changes: list[Change] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    owner: str = ""


def faults_of(post: Post, versions: Sequence[str]) -> list[str]:
    """Return what is not true of a history that it must be.

    Args:
        post: The history, after its last change.
        versions: The texts of its versions, newest first.
    """
    return [*_of_versions(post, versions), *_of_bases(post), *_of_sights(post)]


def _of_versions(post: Post, versions: Sequence[str]) -> Iterator[str]:
    """Every acknowledged text is in a version, and no refused one is."""
    found = Counter(versions)
    for one in post.changes:
        if one.text is None:
            continue
        if one.is_acknowledged and not found[one.text]:
            yield f"the text of {_shown(one)} is in no version"
        if one.is_refused and found[one.text]:
            yield f"the text of {_shown(one)} is in a version"
        if found[one.text] > 1:
            yield f"the text of {_shown(one)} is in {found[one.text]} versions"


def _of_bases(post: Post) -> Iterator[str]:
    """No two changes were accepted on the same state: one would have replaced the other unseen."""
    accepted: dict[str, Change] = {}
    for one in post.changes:
        if one.based_on is None or not one.is_acknowledged or one.text is None:
            continue
        first = accepted.setdefault(one.based_on, one)
        if first is not one:
            yield f"{_shown(first)} and {_shown(one)} both replaced {one.based_on}"


def _of_sights(post: Post) -> Iterator[str]:
    """Readers saw what some change made visible, and that no later one had replaced before."""
    first = Change(
        who="first", what="draft", began=post.began, ended=post.began, status=201,
        live=frozenset({ABSENT}),
    )  # fmt: skip
    visible = [first, *(one for one in post.changes if one.live and not one.is_refused)]
    for sight in post.sights:
        made = [one for one in visible if sight.text in one.live and one.began < sight.ended]
        if not made:
            yield f"a reader saw {_text(sight.text)}, which nothing had published"
        elif all(_is_replaced(one, visible, sight) for one in made):
            yield f"a reader saw {_text(sight.text)} after it was replaced"


def _is_replaced(made: Change, visible: Iterable[Change], sight: Sight) -> bool:
    """Return whether another change began after *made* had ended, and ended before the sight."""
    if made.ended is None or not made.is_acknowledged:
        return False
    return any(
        one.is_acknowledged and one.ended is not None and made.ended < one.began
        and one.ended < sight.began and sight.text not in one.live
        for one in visible
    )  # fmt: skip


def told(post: Post) -> list[str]:
    """Return the history of a post, a line for each change, in their order."""
    return [_shown(one) for one in sorted(post.changes, key=lambda one: one.began)]


def counted(posts: Iterable[Post]) -> Mapping[str, int]:
    """Return how many changes of each kind and status there were."""
    return Counter(f"{one.what} {one.status or 'lost'}" for post in posts for one in post.changes)


def _shown(one: Change) -> str:
    ended = "…" if one.ended is None else f"{one.ended:.4f}"
    return f"{one.who}: {one.what} [{one.began:.4f}, {ended}] {one.status or 'no response'}" + (
        "" if one.text is None else f" {_text(one.text)}"
    )


def _text(text: str) -> str:
    return repr(text) if text else "nothing"
