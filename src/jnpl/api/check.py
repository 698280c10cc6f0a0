"""`check`: new labelled samples, judged by a finished run."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jnpl.api.label_issues import make_source, with_index
from jnpl.data.loading.prepare import default_workers
from jnpl.data.opening import options_taken
from jnpl.data.options import OpenOptions
from jnpl.embedding.choice import default_cache
from jnpl.embedding.compute import EmbeddingOptions
from jnpl.internal.json_files import read_facts
from jnpl.judging.findings import Findings
from jnpl.outputs.checking import CheckedBatch, check_samples
from jnpl.outputs.run_source import RunDataOptions
from jnpl.outputs.saved_model import ModelFacts
from jnpl.pipeline import Origin
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter


def check(
    run: str | os.PathLike[str],
    data: Any,
    labels: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    trust_code: bool = False,
    **options: Any,
) -> Findings:
    """Return which labels of new samples are probably wrong, judged by a finished run that never saw them.

    Args:
        run: the run folder, as `find_label_issues(..., out=run)` or `jnpl find DATA -o RUN` writes it.
        data: new samples, as `find_label_issues` takes them. Columns and other options are those of the run.
        labels: their given labels (N,), class names; or the name of a column.
        out: a run folder for the findings and the report, which says how the samples compare with those of the run:
            classes that it does not know, samples like nothing in it, copies, and whether anything has shifted.
        cache: the folder of cached embeddings; by default $JNPL_CACHE, or a cache folder of the user.
        trust_code: allow a model that is code of your own.
        **options: how to read the data where that differs from the run, such as `label_column`.

    Returns:
        Findings on the new samples. A label that names no class of the run has no quality (nan).

    Example:
        >>> import tempfile
        >>> from jnpl import find_label_issues
        >>> x = [[i / 40, (i % 2) * 2 + (i % 5) / 9] for i in range(40)]
        >>> y = ["odd" if i % 2 else "even" for i in range(40)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = find_label_issues(x, y, settings=["train.epochs=20"], out=f"{folder}/run")
        ...     findings = check(f"{folder}/run", [[0.3, 0.1], [0.4, 2.2]], ["odd", "odd"])
        >>> findings.is_label_issue.tolist()
        [True, False]
    """
    report = Reporter()
    report.quiet(True)
    batch = check_data(run, data, labels, options, cache=cache, trust_code=trust_code, report=report)
    if out is not None:
        batch.write(RunFolder(out), origin_of(RunFolder(run), data, options), report)
    return with_index(batch.findings, data)


def check_data(
    run: str | os.PathLike[str],
    data: Any,
    labels: Any,
    options: dict[str, Any],
    *,
    cache: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    trust_code: bool = False,
    report: Reporter,
) -> CheckedBatch:
    """Open new data as the run opened its own, and check them; the options are changes of those of the run."""
    folder = RunFolder(run)
    if folder.has_tags:
        _ = folder.findings  # an error, before anything is embedded
    of_arrays = labels is not None and not isinstance(labels, str)
    used = options if of_arrays else _opening(folder, data, options)
    source = make_source(data, labels, None, {**used, "one_class": True})
    with report.embedding() as progress:
        embedding = EmbeddingOptions(
            cache=default_cache() if cache is None else Path(cache),
            workers=default_workers() if workers is None else workers,
            progress=progress,
            note=report.note,
        )
        return check_samples(folder, source, embedding, trust_code=trust_code)


def _opening(run: RunFolder, data: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options by which a run opened its data, as far as these data take them, with changes."""
    inherited = OpenOptions.from_json(run.data_facts.options or {})
    encoding = read_facts(run.model_facts, ModelFacts).encoding if run.model_facts.is_file() else None
    return options_taken(data, inherited.for_test(encoding, data)) | options


def origin_of(run: RunFolder, data: Any, options: dict[str, Any], command: Sequence[str] = ()) -> Origin:
    """Return where the checked data came from, so that the review can open them again."""
    if not isinstance(data, str | os.PathLike):
        return Origin(command=command, thumbnails=True)
    facts = run.data_facts.options or {}
    how = RunDataOptions.from_json({**facts, "data": "", "test": None, "holdout": None, "review": None})
    path = data if isinstance(data, str) else str(Path(data).absolute())
    opened = replace(how, data=path, opening=OpenOptions(**_opening(run, data, options)))
    return Origin(command=command, options=opened.to_json(), thumbnails=True)
