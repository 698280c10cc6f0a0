"""A run that only says which GPU it sees: `python -m tests.helpers.gpu_share SETTINGS.json`."""

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    told = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("JNPL_BENCH_ACCELERATOR")
    Path(sys.argv[1]).with_name("result.json").write_text(json.dumps({"results": {"told": told}}), "utf-8")
