"""Contracts: suites that every implementation of a seam inherits, and the proof that they bite."""
