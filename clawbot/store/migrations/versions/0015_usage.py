"""What model calls cost; what a process has to tell of itself

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "usage",
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("user_key", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_written_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_nanos", sa.BigInteger(), nullable=False),
        sa.Column("unpriced", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "hour", "session_key", "epoch", "user_key", "model", name=op.f("pk_usage")
        ),
    )
    op.create_index("ix_usage_session", "usage", ["session_key", "epoch"])
    op.add_column("processes", sa.Column("facts", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column("processes", "facts")
    op.drop_index("ix_usage_session", "usage")
    op.drop_table("usage")
