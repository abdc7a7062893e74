"""Write a shape as the Alembic project that its authors would have."""

from pathlib import Path
from textwrap import dedent, indent

from testkit.revisions import imports
from tests.corpus.shape import HEAD, Rev, Shape

INI = """\
[alembic]
script_location = %(here)s/migrations
prepend_sys_path = .
path_separator = os
"""
# As `alembic init` writes it, without logging and the offline mode.
ENV = """\
from alembic import context
from sqlalchemy import MetaData, engine_from_config, pool

config = context.config
target_metadata = None


def run_migrations_online():
    connectable = engine_from_config(
        config.get_section(config.config_ini_section, {}),
        prefix="sqlalchemy.",
        poolclass=pool.NullPool,
    )
    with connectable.connect() as connection:
        context.configure(connection=connection, target_metadata=target_metadata)
        with context.begin_transaction():
            context.run_migrations()


run_migrations_online()
"""


def write(shape: Shape, folder: Path) -> Path:
    """Write the project of *shape* into *folder*, and return the path of its ``alembic.ini``."""
    versions = folder / "migrations" / "versions"
    versions.mkdir(parents=True)
    env = ENV.replace("target_metadata = None", f"target_metadata = {shape.metadata}")
    env = env.replace("=target_metadata)", f"=target_metadata, {shape.configure})")
    (folder / "migrations" / "env.py").write_text(env)
    ini = folder / "alembic.ini"
    ini.write_text(INI.replace("prepend_sys_path = .", f"prepend_sys_path = {folder}") + shape.ini)
    for path, text in shape.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    for one in shape.revisions:
        file = versions / one.below / f"{one.id}_{shape.name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(one.source) or _source(shape, one))
    return ini


def _source(shape: Shape, one: Rev) -> str:
    return "\n".join(
        (
            "from alembic import op",
            "import sqlalchemy as sa",
            imports(one.body, one.more, shape.head, shape.decorator, shape.signature),
            HEAD,
            f"revision = {one.id!r}",
            f"down_revision = {one.down!r}",
            dedent(one.more),
            dedent(shape.head),
            dedent(shape.decorator).strip(),
            f"def upgrade({shape.signature}):",
            indent(dedent(one.body).strip(), "    "),
            "",
        )
    )
