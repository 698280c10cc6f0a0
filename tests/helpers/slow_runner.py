"""A real run whose epochs take their time, so that it can be stopped in the middle: `jnpl.experiments.runner`.

`python -m tests.helpers.slow_runner FOLDER/work/NAME/run.json` waits before each epoch until FOLDER/quick exists.
"""

import sys
import time
from pathlib import Path

from jnpl.experiments.observer import Observer
from jnpl.experiments.runner import main
from jnpl.training.epoch_view import EpochView

if __name__ == "__main__":
    look, quick = Observer.__call__, Path(sys.argv[1]).parents[2] / "quick"

    def slowly(self: Observer, view: EpochView) -> None:
        """Note an epoch after a while."""
        if not quick.exists():
            time.sleep(0.2)
        look(self, view)

    Observer.__call__ = slowly  # type: ignore[method-assign]
    sys.exit(main())
