"""Pools of workers, and the one process that holds a channel

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("pool", sa.Text(), nullable=True))
    op.add_column("channel_state", sa.Column("holder", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("channel_state", "holder")
    op.drop_column("sessions", "pool")
