"""Which messages bear the sign that they are being answered

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_IS_MARKED = sa.text("typing_mark IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_inbox_typing",
        "inbox",
        ["channel"],
        sqlite_where=_IS_MARKED,
        postgresql_where=_IS_MARKED,
    )


def downgrade() -> None:
    op.drop_index("ix_inbox_typing", table_name="inbox")
