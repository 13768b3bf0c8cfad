"""Files that are sent to people

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("file", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column("outbox", "file")
