"""Tests of clawbot."""
