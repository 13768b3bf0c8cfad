"""The vocabulary by which tokens are counted: data, and where it comes from (README.md)."""
