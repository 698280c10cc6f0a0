"""Run folders on several tags per sample, without a training."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from jnpl.judging.noise_model import Interval
from jnpl.judging.tag_findings import TagFindings, TagNoise

if TYPE_CHECKING:
    from pathlib import Path

TAGS = ("cat", "dog", "eel")


def tag_findings(samples: int = 24, names: tuple[str, ...] = TAGS, **more: object) -> TagFindings:
    """Sample 0 has cat, dog: dog is extra (0.1); sample 1 has eel: cat and dog are missing (0.3, 0.05).

    Sample 2 has no tag, and all others have one of them, of a quality between 0.6 and 0.9; that of sample 3 is unknown.
    """
    count = len(names)
    given = np.arange(samples)[:, None] % count == np.arange(count)[None]
    quality = np.linspace(0.6, 0.9, samples * count).reshape(samples, count)
    given[0, :2], given[1], given[2] = True, False, False
    given[1, 2] = True
    quality[0, 1], quality[1, 0], quality[1, 1] = 0.1, 0.3, 0.05
    quality[3] = np.nan
    by_tag = np.array([[0.2, 0.1, 0.3]] * (count - 1) + [[np.nan] * 3])
    noise = TagNoise(Interval(0.25, 0.2, 0.3), Interval(0.04, 0.03, 0.05), by_tag, by_tag / 4)
    ids = more.pop("ids", np.arange(samples))
    return TagFindings(names, given, quality, ids, noise=noise, **more)  # type: ignore[arg-type]


def tag_run(folder: Path, findings: TagFindings | None = None, **data: object) -> Path:
    """Write the run folder of findings; `data` are entries of data.json."""
    (findings or tag_findings()).save(folder)
    (folder / "run.json").write_text(json.dumps({"status": "finished", "kind": "tags", "data": "animals"}))
    (folder / "data.json").write_text(json.dumps({"kind": "vector", "command": [], **data}))
    return folder
