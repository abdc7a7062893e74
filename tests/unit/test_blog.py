"""Slugs, excerpts, tags, and the form in which posts are searched."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.kit.ids import new_id
from tenantry.kit.text import BadText
from tenantry.tenant.blog.drafts import MADE_EXCERPT_CHARS, excerpt_of
from tenantry.tenant.blog.searching import (
    BadSearch,
    fold,
    searched_for,
)
from tenantry.tenant.blog.slugs import (
    NUMBERS_MAX,
    SLUG_CHARS_MAX,
    BadSlug,
    candidates,
    checked_slug,
    slug_of,
)
from tenantry.tenant.blog.tagging import BadTags, checked_tags

TEXTS = st.text(max_size=300)
PARTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


class TestSlug:
    @given(TEXTS)
    def test_of_any_title_is_a_valid_slug(self, title: str):
        """A title becomes a valid slug, and a slug stays as it is."""
        slug = slug_of(title)

        assert 1 <= len(slug) <= SLUG_CHARS_MAX
        assert checked_slug(slug) == slug_of(slug) == slug

    @given(TEXTS)
    def test_has_candidates_that_are_all_good_and_different(self, title: str):
        found = list(candidates(title, new_id()))

        assert len(set(found)) == len(found) == NUMBERS_MAX + 1
        assert all(checked_slug(one) == one for one in found)

    @pytest.mark.parametrize(
        ("title", "slug"),
        [
            ("Hello, World!", "hello-world"),
            ("  ...  ", "post"),
            ("\U0001f3a3\ufe0f\u200d", "post"),
            ("Don\u2019t stop", "dont-stop"),
            ("STRASSE \u2116 5", "strasse-no-5"),
            ("\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35"),
            ("A/B\\C?D#E%F&G", "a-b-c-d-e-f-g"),
            ("<b>bold</b>", "b-bold-b"),
        ],
    )
    def test_keeps_letters_and_digits(self, title: str, slug: str):
        assert slug_of(title) == slug

    @pytest.mark.parametrize(
        "title",
        ["T\u0308", "J\u030c", "\u0130\u0316", "a" * 199 + "\u0130\u0321", "T\u0308" * 300],
    )
    def test_of_letters_that_compose_in_lower_case_stays_as_it_is(self, title: str):
        assert checked_slug(slug_of(title)) == slug_of(slug_of(title)) == slug_of(title)

    @pytest.mark.parametrize(
        "slug", ["", "-", "a-", "-a", "a--b", "a b", "a.b", "\u0301a", "\ud800"]
    )
    def test_that_is_invalid_is_refused(self, slug: str):
        with pytest.raises(BadSlug):
            checked_slug(slug)


class TestExcerpt:
    @given(TEXTS | st.text(st.sampled_from("a \n\u7070"), max_size=600))
    def test_is_one_line_of_a_bounded_length(self, content: str):
        """It is the beginning of the content, or all of it, without its line breaks."""
        excerpt = excerpt_of(content)

        assert len(excerpt) <= MADE_EXCERPT_CHARS + 1
        assert " ".join(content.split()).startswith(excerpt.removesuffix("\u2026").rstrip())
        assert excerpt == " ".join(excerpt.split())


class TestTags:
    def test_that_are_equal_in_canonical_form_are_one(self):
        """The first spelling is kept, and the order of first occurrences."""
        assert checked_tags(["b", " A ", "B", "a", "c"]) == ["b", "A", "c"]

    def test_are_bounded(self):
        with pytest.raises(BadTags):
            checked_tags([str(number) for number in range(21)])
        with pytest.raises(BadText):
            checked_tags(["fine", ""])


class TestSearch:
    @given(PARTS, TEXTS, TEXTS)
    def test_finds_every_part_of_a_text(self, part: str, before: str, after: str):
        """In any case; special characters match themselves."""
        if not part.split():
            return
        text = fold("Title", f"{before} {part} {after}").text

        for typed in (part, part.upper(), part.lower(), f"  {part}\n"):
            # Unicode's own cases do not always lead back: \u00b5 in capitals is another letter.
            if fold("", typed).text == fold("", part).text:
                assert searched_for(typed) in text, typed

    def test_does_not_run_from_title_to_content(self):
        assert searched_for("one two") not in fold("one", "two").text
        assert searched_for("one two") in fold("", "one\n\ttwo").text

    @pytest.mark.parametrize("search", ["", " ", "\n\t"])
    def test_for_empty_text_is_refused(self, search: str):
        with pytest.raises(BadSearch):
            searched_for(search)

    @pytest.mark.parametrize("search", ["x" * 201, "\0", "\ud800"])
    def test_for_invalid_text_is_refused(self, search: str):
        with pytest.raises(BadText):
            searched_for(search)

    def test_keeps_a_bounded_text(self):
        """One character of the content can become eighteen."""
        assert len(fold("", "\ufdfa" * 100).text) < 100 * 20

        half = ("\ufdfa" * 200 + " ") * 1_000
        with pytest.raises(BadText, match="ligatures"):
            fold("", half)

    @pytest.mark.parametrize("char", ["\ufdfa", "\u0300", "\u2014"])
    def test_takes_no_longer_for_any_text(self, char: str):
        """Less than a second, because a tenant's writes wait for it."""
        began = time.process_time()
        with contextlib.suppress(BadText):
            fold("", char * 340_000)

        assert time.process_time() - began < 1


class TestLongText:
    def test_is_searched_across_chunks(self):
        """It is folded in chunks; the boundary matters only inside an extremely long word."""
        word = "Stra\N{LATIN SMALL LETTER SHARP S}e \N{LATIN SMALL LIGATURE FI}n "
        for shift in range(12):
            content = "x" * shift + word * 1_000
            folded = " ".join(
                content.casefold().replace("\N{LATIN SMALL LIGATURE FI}", "fi").split()
            )

            assert fold("t", content).text == f"t\n{folded}"
