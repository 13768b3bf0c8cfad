"""Tests with processes of their own: they start, signal and kill real ones."""
