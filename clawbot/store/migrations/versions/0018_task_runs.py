"""What the agent does beside a conversation, as long as it is not over

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "task_runs",
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("base_key", sa.Text(), nullable=False),
        sa.Column("base_epoch", sa.Integer(), nullable=False),
        sa.Column("base_seq", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.BigInteger(), nullable=False),
        sa.Column("begun_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_key", name=op.f("pk_task_runs")),
    )
    op.create_index(op.f("ix_task_runs_base_key"), "task_runs", ["base_key"])


def downgrade() -> None:
    op.drop_table("task_runs")
