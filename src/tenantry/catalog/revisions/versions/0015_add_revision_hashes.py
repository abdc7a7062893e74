"""Add what the revisions were with which a run began that holds after waves."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0015"
down_revision = "0014"


def upgrade(op: Operations) -> None:
    """Add the column; without it, revisions that end at the head of the run are enough."""
    op.add_column("migration_run", sa.Column("revision_hashes", sa.String, nullable=True))
