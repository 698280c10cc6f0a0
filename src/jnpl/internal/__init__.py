"""What every room may use: errors, files written whole, settings that cannot change, provenance of results."""
