"""`python -m jnpl.experiments.parent_watch MODULE ARGUMENTS`: run a module, and stop it when its parent ends.

Its standard input is a pipe that nobody writes to: it ends with the process that holds the other end. The module gets
SIGTERM, which makes a run save itself and stop.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

from jnpl.experiments.process import PATIENCE


def main() -> None:
    """Run the module of the command line as a program."""
    module = sys.argv.pop(1)
    threading.Thread(target=_wait_for_parent, daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _wait_for_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
