"""Approvals that last as long as their conversation

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("approvals", sa.Column("epoch", sa.Integer, nullable=False, server_default="0"))
    op.add_column("approvals", sa.Column("lasts", sa.Text, nullable=False, server_default="once"))


def downgrade() -> None:
    op.drop_column("approvals", "lasts")
    op.drop_column("approvals", "epoch")
