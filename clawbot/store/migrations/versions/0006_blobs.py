"""Files on their way to a worker

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "blobs",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("part_no", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "part_no", name=op.f("pk_blobs")),
    )
    op.create_index("ix_blobs_at_ms", "blobs", ["at_ms"])


def downgrade() -> None:
    op.drop_index("ix_blobs_at_ms", "blobs")
    op.drop_table("blobs")
