"""Fill a tenant's blog with many posts, past the service: a hundred thousand in seconds."""

import asyncio

import asyncpg

TAG = "weather"
TAGS = ("news", TAG)
CONTENT = "It rained all day, and no one minded. " * 40

_POSTS = """
INSERT INTO tenantry_post
SELECT gen_random_uuid(), 'what-happened-on-day-' || n, 'What happened on day ' || n, $2::text,
    left($2::text, 200), NULL, 'Owner', array_to_string($3::text[], E'\\n'),
    moment, moment, moment
FROM generate_series(1, $1::int) n,
    LATERAL (SELECT now() - make_interval(mins => n) AS moment) made
"""
_FILL = (
    "INSERT INTO tenantry_post_tag SELECT tag, id FROM tenantry_post, unnest($1::text[]) tag",
    """INSERT INTO tenantry_published_tag
    SELECT tag, published_at, id FROM tenantry_post, unnest($1::text[]) tag""",
    """INSERT INTO tenantry_tag
    SELECT tag, (SELECT count(*) FROM tenantry_post), (SELECT count(*) FROM tenantry_post)
    FROM unnest($1::text[]) tag""",
)
_COUNT = """
UPDATE tenantry_blog_state SET
    post_count = (SELECT count(*) FROM tenantry_post),
    published_count = (SELECT count(*) FROM tenantry_post)
"""


def fill(url: str, posts: int) -> None:
    """Publish as many *posts*, each with the `TAGS`, in the empty blog at *url* (PostgreSQL)."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(_POSTS, posts, CONTENT, TAGS)
            for sql in _FILL:
                await connection.execute(sql, TAGS)
            await connection.execute(_COUNT)
            # As the server does by itself, some minutes later.
            await connection.execute("VACUUM ANALYZE")
        finally:
            await connection.close()

    asyncio.run(run())
