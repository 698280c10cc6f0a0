"""The commands of `jnpl`, thin: each reads its arguments, calls the package and prints."""
