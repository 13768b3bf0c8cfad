"""Sub-sessions of a place, held replies and read positions

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sessions", sa.Column("base_key", sa.Text(), server_default="", nullable=False)
    )
    op.execute("UPDATE sessions SET base_key = key")
    rows = sa.table("sessions", sa.column("key"), sa.column("base_key"), sa.column("context_type"))
    connection = op.get_bind()
    tasks = connection.execute(sa.select(rows.c.key).where(rows.c.context_type == "task"))
    for key in tasks.scalars().all():
        connection.execute(
            rows.update().where(rows.c.key == key).values(base_key=key.partition("/task:")[0])
        )
    op.create_index("ix_sessions_base_key", "sessions", ["base_key"])
    op.add_column("outbox", sa.Column("visible_no", sa.BigInteger(), nullable=True))
    op.add_column("outbox", sa.Column("footer", sa.Text(), server_default="", nullable=False))
    op.create_index(
        "ix_outbox_inactive",
        "outbox",
        ["channel", "chat_id", "lane_thread"],
        sqlite_where=sa.text("reason = 'inactive'"),
        postgresql_where=sa.text("reason = 'inactive'"),
    )
    op.create_table(
        "context_marks",
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.Column("given_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_key", "thread", name=op.f("pk_context_marks")),
    )
    op.create_table(
        "read_marks",
        sa.Column("viewer", sa.Text(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("seen_total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("viewer", "session_key", name=op.f("pk_read_marks")),
    )


def downgrade() -> None:
    op.drop_table("read_marks")
    op.drop_table("context_marks")
    op.drop_index("ix_outbox_inactive", "outbox")
    op.drop_column("outbox", "footer")
    op.drop_column("outbox", "visible_no")
    op.drop_index("ix_sessions_base_key", "sessions")
    op.drop_column("sessions", "base_key")
