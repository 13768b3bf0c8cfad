cp "$CASE"/project/* .
