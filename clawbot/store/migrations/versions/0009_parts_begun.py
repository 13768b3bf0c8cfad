"""When the sending of a part began

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    column = sa.Column("begun_ms", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("outbox_parts", column)


def downgrade() -> None:
    op.drop_column("outbox_parts", "begun_ms")
