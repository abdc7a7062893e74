"""One history of a schema, as every contender wants it written.

Twelve revisions that every tenant has, and two that are pending: a table with an index, and
a column with a default and a backfill of 200 rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

ROWS = 200
TABLES = (
    *("author", "category", "article", "tag", "article_tag"),
    *("comment", "medium", "page", "redirect"),
)
# Without a sequence, like those of the others.
_KEY = 'sa.Column("id", sa.Integer, primary_key=True, autoincrement=False)'


@dataclass(frozen=True)
class Step:
    """One revision.

    Attributes:
        name: Of its file; the number before the first ``_`` is the revision's id.
        sql: That both engines understand.
        alembic: The body of ``upgrade``.
        django: The list of operations.
    """

    name: str
    sql: str
    alembic: str
    django: str

    @property
    def id(self) -> str:
        """The id of the revision."""
        return self.name.partition("_")[0]


def _table(number: int, name: str) -> Step:
    return Step(
        f"{number:04}_create_{name}",
        f"CREATE TABLE {name} (id INTEGER NOT NULL, title VARCHAR(200) NOT NULL, body TEXT, "
        "at TIMESTAMP, PRIMARY KEY (id))",
        f'op.create_table("{name}", {_KEY}, '
        'sa.Column("title", sa.String(200), nullable=False), sa.Column("body", sa.Text), '
        'sa.Column("at", sa.DateTime))',
        f'migrations.CreateModel("{name}", [("id", models.IntegerField(primary_key=True)), '
        '("title", models.CharField(max_length=200)), ("body", models.TextField(null=True)), '
        f'("at", models.DateTimeField(null=True))], options={{"db_table": "{name}"}})',
    )


def _sql(name: str, sql: str) -> Step:
    return Step(name, sql, f'op.execute("""{sql}""")', f'migrations.RunSQL("""{sql}""")')


HISTORY: Sequence[Step] = (
    *(_table(number, name) for number, name in enumerate(TABLES, 1)),
    Step(
        "0010_add_summary",
        "ALTER TABLE article ADD COLUMN summary VARCHAR(500)",
        'op.add_column("article", sa.Column("summary", sa.String(500)))',
        'migrations.AddField("article", "summary", models.CharField(max_length=500, null=True))',
    ),
    Step(
        "0011_index_articles",
        "CREATE INDEX ix_article_at ON article (at)",
        'op.create_index("ix_article_at", "article", ["at"])',
        'migrations.AddIndex("article", models.Index(fields=["at"], name="ix_article_at"))',
    ),
    _sql(
        "0012_fill_articles",
        "INSERT INTO article (id, title, body) WITH RECURSIVE i(k) AS "
        f"(SELECT 1 UNION ALL SELECT k + 1 FROM i WHERE k < {ROWS}) "
        "SELECT k, 'Article ' || k, 'It rained all day, and no one minded.' FROM i",
    ),
)
_BACKFILL = "UPDATE article SET weight = id * 2"
PENDING: Sequence[Step] = (
    Step(
        "0013_create_bookmark",
        "CREATE TABLE bookmark (id INTEGER NOT NULL, article_id INTEGER NOT NULL, "
        "note VARCHAR(200), PRIMARY KEY (id));\n"
        "CREATE INDEX ix_bookmark_article ON bookmark (article_id)",
        f'op.create_table("bookmark", {_KEY}, '
        'sa.Column("article_id", sa.Integer, nullable=False), sa.Column("note", sa.String(200)))\n'
        'op.create_index("ix_bookmark_article", "bookmark", ["article_id"])',
        'migrations.CreateModel("bookmark", [("id", models.IntegerField(primary_key=True)), '
        '("article_id", models.IntegerField()), '
        '("note", models.CharField(max_length=200, null=True))], '
        'options={"db_table": "bookmark", "indexes": '
        '[models.Index(fields=["article_id"], name="ix_bookmark_article")]})',
    ),
    Step(
        "0014_add_weight",
        f"ALTER TABLE article ADD COLUMN weight INTEGER DEFAULT 0 NOT NULL;\n{_BACKFILL}",
        'op.add_column("article", sa.Column("weight", sa.Integer, '
        'server_default=sa.text("0"), nullable=False))\n'
        f'op.execute("{_BACKFILL}")',
        'migrations.AddField("article", "weight", models.IntegerField(default=0)), '
        f'migrations.RunSQL("{_BACKFILL}")',
    ),
)
BEHIND, HEAD = HISTORY[-1].id, PENDING[-1].id
# The backfill, the table and the index of a tenant that is at the head.
IS_AT_HEAD = f"SELECT count(*) = {ROWS} FROM article WHERE weight = id * 2"
HAS_BOOKMARKS = "SELECT count(*) FROM bookmark"


def script() -> str:
    """Return the pending revisions as one script, the move of Alembic's version with it."""
    moves = f"UPDATE alembic_version SET version_num = '{HEAD}' WHERE version_num = '{BEHIND}'"
    return ";\n".join([*(step.sql for step in PENDING), moves])


def write_alembic(folder: Path, steps: Sequence[Step], *, live: bool = False) -> Path:
    """Write *steps* as a directory of Alembic's, and return it.

    Args:
        folder: Of the directory; it may hold earlier steps already.
        steps: To write.
        live: Whether they say ``online = True``.
    """
    versions = folder / "versions"
    versions.mkdir(parents=True, exist_ok=True)
    ids = [step.id for step in (*HISTORY, *PENDING)]
    for step in steps:
        at = ids.index(step.id)
        lines = [
            "from alembic import op",
            "import sqlalchemy as sa",
            "",
            f"revision = {step.id!r}",
            f"down_revision = {ids[at - 1] if at else None!r}",
            *(["online = True"] if live else []),
            "",
            "",
            "def upgrade():",
            indent(step.alembic, "    "),
            "",
        ]
        (versions / f"{step.name}.py").write_text("\n".join(lines))
    return folder


def write_dbmate(folder: Path) -> Path:
    """Write every step as a directory of dbmate's, and return it."""
    folder.mkdir()
    for step in (*HISTORY, *PENDING):
        text = f"-- migrate:up\n{step.sql};\n\n-- migrate:down\n"
        (folder / f"{step.name}.sql").write_text(text)
    return folder


def write_django(folder: Path, steps: Sequence[Step]) -> None:
    """Write *steps* as migrations of a Django application, into its folder of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()
    names = [step.name for step in (*HISTORY, *PENDING)]
    for step in steps:
        at = names.index(step.name)
        after = [("content", names[at - 1])] if at else []
        text = f"""
            from django.db import migrations, models


            class Migration(migrations.Migration):
                dependencies = {after!r}
                operations = [{step.django}]
        """
        (folder / f"{step.name}.py").write_text(dedent(text).lstrip())
