"""What people may choose below a reply

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("choices", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column("outbox", "choices")
