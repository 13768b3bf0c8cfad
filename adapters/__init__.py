"""Platform adapters: one package a platform, the same file names in each."""
