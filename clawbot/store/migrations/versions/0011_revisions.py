"""Replies that are changed after they were sent: questions that were decided

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

OFFERING = sa.text("choices IS NOT NULL")


def upgrade() -> None:
    op.add_column(
        "outbox", sa.Column("revision", sa.Integer(), nullable=False, server_default="0")
    )
    op.create_index(
        "ix_outbox_choices",
        "outbox",
        ["channel", "chat_id"],
        sqlite_where=OFFERING,
        postgresql_where=OFFERING,
    )
    op.add_column("approvals", sa.Column("closing", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("approvals", sa.Column("outbox_id", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("approvals", "outbox_id")
    op.drop_column("approvals", "closing")
    op.drop_index("ix_outbox_choices", table_name="outbox")
    op.drop_column("outbox", "revision")
