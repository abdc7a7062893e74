"""Small tools."""

import asyncio
import io
import logging
import resource
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from tenantry.db.urls import sqlite_path, with_database
from tenantry.kit import log, private, secrets
from tenantry.kit.clock import utc_now
from tenantry.kit.ids import new_id, parse_id
from tenantry.kit.pages import Page, Window
from tenantry.kit.request_log import HELD_LINES_MAX, HELD_SECONDS, AccessEntry, AccessLog
from tenantry.kit.text import BadText, canonical, checked_line, compatible
from tenantry.tenant.blog.slugs import SLUG_CHARS_MAX, slug_of
from tests.logs import logs_kept


class TestWindow:
    @pytest.mark.parametrize(
        ("page", "size", "offset", "served"),
        [(1, 10, 0, 10), (3, 10, 20, 10), (1, 1, 0, 1), (2, 100, 100, 100), (2, 101, 100, 100)],
    )
    def test_starts_after_the_pages_before(self, page: int, size: int, offset: int, served: int):
        window = Window(page, size)

        assert (window.offset, window.size) == (offset, served)

    @pytest.mark.parametrize(
        ("total", "size", "pages"), [(0, 10, 0), (1, 10, 1), (10, 10, 1), (11, 10, 2), (5, 1, 5)]
    )
    def test_counts_pages(self, total: int, size: int, pages: int):
        assert Page([], Window(1, size), total).total_pages == pages


class TestPrivateFile:
    def test_names_itself_when_it_cannot_be_written(self, tmp_path: Path):
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        file = private.open_new(tmp_path / "archive.tar")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
        try:
            with pytest.raises(OSError, match=r"archive\.tar"), file:
                file.write(bytes(100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)


class TestIds:
    def test_are_uuid7_and_in_order(self):
        ids = [new_id() for _ in range(1000)]

        assert ids == sorted(ids)
        assert len(set(ids)) == 1000
        assert {one.version for one in ids} == {7}
        assert {type(one) for one in ids} == {UUID}

    def test_are_read_in_any_case(self):
        one = new_id()

        assert parse_id(str(one)) == one
        assert parse_id(str(one).upper()) == one

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "17",
            "0190aaaabbbb7cccddddeeeeffff1234",
            "{0190aaaa-bbbb-7ccc-dddd-eeeeffff1234}",
            "urn:uuid:0190aaaa-bbbb-7ccc-dddd-eeeeffff1234",
            "0190aaaa-bbbb-7ccc-dddd-eeeeffff1234\n",
            " 0190aaaa-bbbb-7ccc-dddd-eeeeffff1234",
            "0190aaaa-bbbb-7ccc-dddd-eeeeffff123g",
            "\u0660190aaaa-bbbb-7ccc-dddd-eeeeffff1234",
        ],
    )
    def test_are_refused_in_any_other_form(self, text: str):
        assert parse_id(text) is None


class TestSecrets:
    def test_are_well_formed_and_never_the_same(self):
        made = {secrets.mint("tnk_") for _ in range(200)}

        assert len(made) == 200
        assert all(secrets.is_well_formed("tnk_", one) for one in made)
        assert not any(secrets.is_well_formed("tnm_", one) for one in made)

    def test_with_one_wrong_character_are_refused(self):
        """The checksum covers each character."""
        secret = secrets.mint("tnk_")

        for at, char in enumerate(secret):
            slip = secret[:at] + ("A" if char != "A" else "B") + secret[at + 1 :]
            assert not secrets.is_well_formed("tnk_", slip)

    @pytest.mark.parametrize("end", [slice(0, -1), slice(1, None), slice(0, 12), slice(0, 0)])
    def test_cut_short_are_refused(self, end: slice):
        assert not secrets.is_well_formed("tnk_", secrets.mint("tnk_")[end])

    @pytest.mark.parametrize("odd", ["ä", "\ud800", "\0", " ", "\n"])
    def test_with_odd_characters_are_refused(self, odd: str):
        secret = secrets.mint("tnk_")

        assert not secrets.is_well_formed("tnk_", secret + odd)
        assert not secrets.is_well_formed("tnk_", odd + secret)

    def test_end_in_the_crc_of_what_is_before(self):
        secret = secrets.mint("tnk_")

        assert secret[-8:] == f"{zlib.crc32(secret[:-8].encode()):08x}"

    def test_are_found_by_a_digest_and_known_by_their_beginning(self):
        secret = secrets.mint("tnk_")

        assert len(secrets.digest(secret)) == 64
        assert secrets.digest(secret) != secrets.digest(secret + "x")
        assert secrets.shown_prefix(secret) == secret[:12]


class TestText:
    @pytest.mark.parametrize("text", ["a", " a ", "Zoë 🙂", "a" * 10, "\u00a0x", "אב"])
    def test_of_one_line_stays_as_it_is(self, text: str):
        assert checked_line("name", text, chars_max=10) == text

    @pytest.mark.parametrize(
        "text",
        ["", "   ", "\u2003", "a" * 11, "a\nb", "a\tb", "a\0", "\x7fa", "\x85a", "a\ud800"],
    )
    def test_that_is_invalid_is_refused_by_name(self, text: str):
        with pytest.raises(BadText, match="`name`"):
            checked_line("name", text, chars_max=10)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Ada@Example.COM", "ada@example.com"),
            ("Zoe\u0308", "zo\u00eb"),
            ("ÅSA", "a\u030asa"),
            ("T\u0308", "\u1e97"),
            ("\u0130\u0316", "i\u0316\u0307"),
        ],
    )
    def test_is_compared_in_one_form(self, one: str, other: str):
        assert canonical(one) == canonical(other)

    def test_does_not_equate_different_texts(self):
        assert canonical("\u0131") != canonical("i")
        assert canonical(" a") != canonical("a")


class TestSlug:
    @pytest.mark.parametrize(
        ("title", "slug"),
        [
            ("Hello, World!", "hello-world"),
            ("  Über uns  ", "über-uns"),
            ("snake_case - and --- dashes", "snake-case-and-dashes"),
            ("日本語 タイトル", "日本語-タイトル"),
            ("½ & ﬁne", "1-2-fine"),
            ("!!!", "post"),
            ("", "post"),
            ("🙂", "post"),
            ("a" * 300, "a" * SLUG_CHARS_MAX),
            ("a" * 199 + " b", "a" * 199),
        ],
    )
    def test_is_made_of_letters_and_digits(self, title: str, slug: str):
        assert slug_of(title) == slug

    @pytest.mark.parametrize("title", ["A/b?c#d%e", "../..", "<script>", "a\u202eb", "ﷺ"])
    def test_needs_no_escape_in_a_path(self, title: str):
        assert not set(slug_of(title)) & set("/?#%<>. \\\"'&\u202e")


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "path"),
        [
            ("sqlite:///data/catalog.db", "data/catalog.db"),
            ("sqlite:////var/x.db", "/var/x.db"),
            ("postgresql://u@h/x", None),
            ("postgres://h/sqlite:///", None),
        ],
    )
    def test_name_a_file_or_not(self, url: str, path: str | None):
        found = sqlite_path(url)

        assert (found and str(found)) == path

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("postgresql://u:p%40w@h:5433/postgres", "postgresql://u:p%40w@h:5433/t1"),
            ("postgresql://h", "postgresql://h/t1"),
            ("postgresql://h/a?sslmode=require", "postgresql://h/t1?sslmode=require"),
        ],
    )
    def test_of_another_database_keep_everything_else(self, url: str, expected: str):
        assert with_database(url, "t1") == expected


class TestClock:
    def test_is_aware_of_its_zone(self):
        assert utc_now().utcoffset() == timedelta(0)


def entry(**more: object) -> AccessEntry:
    return AccessEntry(
        at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        level="info",
        event="request",
        request_id="r-1",
        method="GET",
        path="/api/admin/tenants/{id}",
        status=200,
        ms=1.25,
        **more,  # type: ignore[arg-type]
    )


class Written(io.StringIO):
    """A stream that records each write separately."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


class TestAccessLog:
    def test_is_a_line_of_json_without_what_is_not_known(self):
        stream = io.StringIO()
        AccessLog(stream, as_json=True).write(entry(error='a "quoted"\nreason'))

        line = stream.getvalue()
        assert line.count("\n") == 1
        assert line.endswith("\n")
        said = msgspec.json.decode(line)
        assert said["error"] == 'a "quoted"\nreason'
        assert said["at"] == "2026-01-02T03:04:05.000006Z"
        assert "tenant" not in said

    def test_is_a_line_of_text_for_people(self):
        stream = io.StringIO()
        AccessLog(stream, as_json=False).write(entry(error="BadKey"))

        assert stream.getvalue() == "03:04:05 GET    /api/admin/tenants/{id} 200 1.2 ms BadKey\n"

    async def test_holds_lines_for_a_moment(self):
        """Lines that come soon after each other are written together."""
        stream = Written()
        log = AccessLog(stream, as_json=True)

        with log.holding():
            log.write(entry(error="A"))
            log.write(entry(error="B"))
            assert stream.writes == []
            await asyncio.sleep(2 * HELD_SECONDS)
            assert [text.count("\n") for text in stream.writes] == [2]

    async def test_holds_so_many_lines_at_most(self):
        stream = Written()
        log = AccessLog(stream, as_json=True)

        with log.holding():
            for _ in range(2 * HELD_LINES_MAX + 1):
                log.write(entry())

            assert stream.getvalue().count("\n") == 2 * HELD_LINES_MAX
        assert stream.getvalue().count("\n") == 2 * HELD_LINES_MAX + 1

    async def test_holds_nothing_back_at_the_end(self):
        stream = Written()
        log = AccessLog(stream, as_json=True)

        with suppress(KeyboardInterrupt), log.holding():
            log.write(entry())
            raise KeyboardInterrupt
        log.write(entry())

        assert [text.count("\n") for text in stream.writes] == [1, 1]

    def test_writes_the_time_in_utc(self):
        stream = io.StringIO()
        there = entry().at.astimezone(timezone(timedelta(hours=2)))
        AccessLog(stream, as_json=False).write(msgspec.structs.replace(entry(), at=there))

        assert stream.getvalue().startswith("03:04:05 ")


class TestLog:
    @pytest.fixture
    def logged(self) -> Iterator[Callable[[BaseException], str]]:
        """Returns what is logged when asyncio reports an error that was never retrieved."""
        written = io.StringIO()

        def report(error: BaseException) -> str:
            logging.getLogger("asyncio").error("Never retrieved", exc_info=error)
            return written.getvalue()

        with logs_kept():
            with redirect_stderr(written):
                log.configure(log_format="json", level="info")
            yield report

    def test_leaves_out_a_connection_that_was_abandoned_while_it_was_opened(
        self, logged: Callable[[BaseException], str]
    ):
        assert logged(ConnectionError("unexpected connection_lost() call")) == ""

    def test_has_every_other_error_that_was_never_retrieved(
        self, logged: Callable[[BaseException], str]
    ):
        assert "ValueError" in logged(ValueError("x"))
        assert "ConnectionError" in logged(ConnectionError("x"))


class TestNormalisation:
    @pytest.mark.parametrize(
        "text", ["e\u0301", "ﬁ", "ﾊﾞ", "한글", "\u0344" * 15, "a" + "\u0300\u0316" * 15, "🙂" * 40]
    )
    def test_equals_nfkc_for_text_of_any_language(self, text: str):
        assert compatible(text) == unicodedata.normalize("NFKC", text)  # noqa: TID251

    @pytest.mark.parametrize(
        "text",
        [
            "a" + "\u0300" * 16_000 + "\u0316" * 16_000,
            "\u0344" * 16_000 + "\u0316" * 16_000,
            "ﾊ" + "\uff9e" * 16_000 + "\u0316" * 16_000,
        ],
    )
    def test_takes_no_longer_for_marks_than_for_letters(self, text: str):
        began = time.process_time()
        with pytest.raises(BadText, match="combining marks"):
            compatible(text)
        canonical(text)

        assert time.process_time() - began < 0.5

    def test_brings_a_decomposed_text_to_the_composed_one(self):
        assert canonical("ZOE\u0308") == "zoë"
