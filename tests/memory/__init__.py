"""Working memory against the acceptance scenarios; a test's name carries its number."""
