"""Settings of the paper and for small machines, as TOML."""
