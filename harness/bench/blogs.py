"""Fill a tenant's blog with many posts, past the service: a hundred thousand in seconds."""

from tenantry.db.urls import sqlite_path
from testkit import raw_sql

TAG = "weather"
TAGS = ("news", TAG)
CONTENT = "It rained all day, and no one minded. " * 40

_ID = "01a21c8000007000a000"
"""The beginning of the ids; the rest is the number of the post."""
_POST = "id, slug, title, content, excerpt, author_name, tags, created_at, updated_at, published_at"
# A post of a release that knew no versions is as its defaults make it.
_VERSIONED = "UPDATE tenantry_post SET version = {versions}, saved_at = updated_at"
_NUMBERS = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {})"
_FILL = (
    f"""INSERT INTO tenantry_post ({_POST})
    {_NUMBERS.format("{posts}")}
    SELECT {{id}}, '{{slug}}' || n, 'What happened on day ' || n, '{CONTENT}',
        '{CONTENT[:200]}', 'Owner', '{{tags}}', moment, moment, moment
    FROM (SELECT n, {{moment}} AS moment FROM number) AS made""",
    "INSERT INTO tenantry_post_text SELECT id, lower(title || '\n' || content) FROM tenantry_post",
)
_TAG = (
    "INSERT INTO tenantry_post_tag SELECT '{tag}', id FROM tenantry_post",
    "INSERT INTO tenantry_published_tag SELECT '{tag}', published_at, id FROM tenantry_post",
    "INSERT INTO tenantry_tag VALUES ('{tag}', {posts}, {posts})",
)
_VERSIONS = f"""
INSERT INTO tenantry_post_version (post_id, number, created_at, published_at, author_name, kind,
    note, title, slug, excerpt, tags, content)
{_NUMBERS.format("{versions}")}
SELECT id, n, created_at, published_at, author_name, 'session', '', title, slug, excerpt, tags,
    content
FROM tenantry_post CROSS JOIN number
"""
_COUNT = "UPDATE tenantry_blog_state SET post_count = {posts}, published_count = {posts}"
_SLUG = "what-happened-on-day-"
_POSTGRESQL = {
    "id": f"CAST('{_ID}' || lpad(to_hex(n), 12, '0') AS uuid)",
    "moment": "now() - make_interval(mins => {posts} - n)",
}
_SQLITE = {
    "id": f"'{_ID}' || printf('%012x', n)",
    "moment": "strftime('%Y-%m-%d %H:%M:%f000', 'now', (n - {posts}) || ' minutes')",
}


def fill(url: str, posts: int, *, versions: int = 0) -> None:
    """Publish as many *posts*, each with the `TAGS`, in the empty blog at *url*.

    Args:
        url: Of the database.
        posts: How many.
        versions: Of each, all of which were published; 0 is as the release without versions left
            the posts, and fits a database of that release.
    """
    is_file = sqlite_path(url) is not None
    engine = _SQLITE if is_file else _POSTGRESQL
    values = {name: sql.format(posts=posts) for name, sql in engine.items()}
    values |= {"slug": _SLUG, "tags": "\n".join(TAGS)}
    statements = [*_FILL, *(sql.replace("{tag}", tag) for sql in _TAG for tag in TAGS), _COUNT]
    if versions:
        statements += [_VERSIONED, _VERSIONS]
    # As the server does by itself, some minutes later.
    statements.append("PRAGMA wal_checkpoint(TRUNCATE)" if is_file else "VACUUM ANALYZE")
    raw_sql.run(url, *(one.format(posts=posts, versions=versions, **values) for one in statements))


def id_of(number: int) -> str:
    """Return the id of the post with this *number*, from 1."""
    text = f"{_ID}{number:012x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def slug_of(number: int) -> str:
    """Return the slug of the post with this *number*, from 1."""
    return f"{_SLUG}{number}"
