"""What a session's working memory has learned; summaries

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('memories',
    sa.Column('session_key', sa.Text(), nullable=False),
    sa.Column('epoch', sa.Integer(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('factor', sa.Float(), nullable=True),
    sa.Column('window_tokens', sa.BigInteger(), nullable=True),
    sa.Column('kept_from', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('budget', sa.JSON(none_as_null=True), nullable=True),
    sa.PrimaryKeyConstraint('session_key', name=op.f('pk_memories'))
    )
    op.create_table('summaries',
    sa.Column('session_key', sa.Text(), nullable=False),
    sa.Column('epoch', sa.Integer(), nullable=False),
    sa.Column('text', sa.Text(), server_default='', nullable=False),
    sa.Column('through_seq', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('for_tokens', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('wanted_seq', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('failures', sa.Integer(), server_default='0', nullable=False),
    sa.Column('next_try_ms', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('busy_until_ms', sa.BigInteger(), server_default='0', nullable=False),
    sa.PrimaryKeyConstraint('session_key', 'epoch', name=op.f('pk_summaries'))
    )


def downgrade() -> None:
    op.drop_table('summaries')
    op.drop_table('memories')
