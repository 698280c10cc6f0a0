"""`python -m jnpl` is the same program as `jnpl`."""

from jnpl.cli import main

if __name__ == "__main__":
    main()
