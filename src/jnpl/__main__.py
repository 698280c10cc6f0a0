"""`python -m jnpl` is the same program as `jnpl`."""

from jnpl.cli.app import main

if __name__ == "__main__":
    main()
