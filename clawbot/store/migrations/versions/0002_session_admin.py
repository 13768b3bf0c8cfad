"""Work directories and deletion of sessions; seeds

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ALTER TABLE on SQLite too: the table is not copied, and foreign rows stay as they are.
    op.add_column('sessions', sa.Column('work_dirs', sa.JSON(none_as_null=True), nullable=True))
    op.add_column('sessions', sa.Column('deleted_ms', sa.BigInteger(), nullable=True))
    op.add_column('sessions', sa.Column('first_epoch', sa.Integer(), server_default='0', nullable=False))
    op.create_table('seeds',
    sa.Column('session_key', sa.Text(), nullable=False),
    sa.Column('epoch', sa.Integer(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('hash', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('session_key', 'epoch', name=op.f('pk_seeds'))
    )


def downgrade() -> None:
    op.drop_table('seeds')
    op.drop_column('sessions', 'first_epoch')
    op.drop_column('sessions', 'deleted_ms')
    op.drop_column('sessions', 'work_dirs')
