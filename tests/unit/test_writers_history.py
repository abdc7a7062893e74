"""What the histories of writers show: each fault of a post, and nothing of a right one."""

from typing import Any

import pytest

from harness.writers.history import ABSENT, Change, Post, Sight, faults_of


def post(*changes: Change, sights: tuple[Sight, ...] = ()) -> Post:
    return Post("id", "slug", 0.0, list(changes), list(sights))


def change(began: float, ended: float | None, status: int | None, **more: Any) -> Change:
    shown = more.pop("shown", ())
    return Change(
        who="editor", what="save", began=began, ended=ended, status=status,
        live=frozenset(shown), **more,
    )  # fmt: skip


FIRST = change(1, 2, 200, text="a", shown=["a"])
SECOND = change(3, 4, 200, text="b", shown=["b"])
LOST = change(3, None, None, text="b", shown=["b"])


class TestAHistory:
    def test_that_is_right_has_no_faults(self):
        sights = (Sight(0, 0.5, ABSENT), Sight(2.1, 2.2, "a"), Sight(3.5, 3.6, "a"))
        right = post(FIRST, SECOND, sights=(*sights, Sight(3.5, 3.6, "b"), Sight(4.1, 4.2, "b")))
        assert faults_of(right, ["b", "a", ""]) == []

    @pytest.mark.parametrize("seen", ["a", "b"])
    @pytest.mark.parametrize("versions", [["b", "a"], ["a"]])
    def test_may_have_what_a_request_without_response_did_or_not(
        self, seen: str, versions: list[str]
    ):
        assert faults_of(post(FIRST, LOST, sights=(Sight(5, 6, seen),)), versions) == []

    def test_misses_an_acknowledged_text(self):
        [fault] = faults_of(post(FIRST, SECOND), ["b"])
        assert fault.endswith("'a' is in no version")

    def test_has_a_refused_text(self):
        [fault] = faults_of(post(change(1, 2, 412, text="a")), ["a"])
        assert fault.endswith("'a' is in a version")

    def test_has_a_text_twice(self):
        [fault] = faults_of(post(FIRST), ["a", "a"])
        assert fault.endswith("is in 2 versions")

    def test_lost_an_update(self):
        based = [
            change(1, 2, 200, text="a", based_on='"1"'),
            change(1, 2, 200, text="b", based_on='"1"'),
        ]
        [fault] = faults_of(post(*based), ["b", "a"])
        assert fault.endswith('both replaced "1"')

    def test_showed_a_draft(self):
        draft = change(1, 2, 200, text="a")
        [fault] = faults_of(post(draft, sights=(Sight(3, 4, "a"),)), ["a"])
        assert fault == "a reader saw 'a', which nothing had published"

    def test_showed_a_text_before_it_was_sent(self):
        [fault] = faults_of(post(SECOND, sights=(Sight(1, 2, "b"),)), ["b"])
        assert fault.endswith("which nothing had published")

    def test_showed_a_replaced_text(self):
        [fault] = faults_of(post(FIRST, SECOND, sights=(Sight(5, 6, "a"),)), ["b", "a"])
        assert fault == "a reader saw 'a' after it was replaced"

    def test_showed_a_withdrawn_text(self):
        withdrawn = change(3, 4, 200, shown=[ABSENT])
        [fault] = faults_of(post(FIRST, withdrawn, sights=(Sight(5, 6, "a"),)), ["a"])
        assert fault == "a reader saw 'a' after it was replaced"
