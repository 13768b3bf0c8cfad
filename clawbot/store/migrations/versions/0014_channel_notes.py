"""Small facts that the processes of a channel share

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "channel_notes",
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("channel", "key", name=op.f("pk_channel_notes")),
    )
    op.create_index(op.f("ix_channel_notes_until_ms"), "channel_notes", ["until_ms"])


def downgrade() -> None:
    op.drop_index(op.f("ix_channel_notes_until_ms"), table_name="channel_notes")
    op.drop_table("channel_notes")
