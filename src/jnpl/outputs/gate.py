"""Whether new labels pass: the reasons against, and the check as JUnit XML and SARIF."""

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt

from jnpl._version import __version__
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable, require_file, write_text
from jnpl.internal.json_files import read_json
from jnpl.outputs.checking import SIGNALS, CheckedBatch

_RULES = {  # of SARIF
    "wrong-label": ("The label looks wrong", "warning"),
    "copy-of-the-run": ("The sample is in the data of the run", "warning"),
    "like-nothing-in-the-run": ("The sample looks like nothing in the run", "note"),
    "unknown-class": ("The run does not know the class", "warning"),
}
_MARKS = {"junit": b"<testsuites>", "sarif": b"sarif"}  # at the beginning of what is written
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def read_baseline(file: Path) -> set[str]:
    """Return the ids of the label issues that an earlier `jnpl check --json` listed."""
    try:
        return {str(issue["id"]) for issue in read_json(file)["suspects"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        how = "it is the output of an earlier `jnpl check ... --json`"
        raise InputError(f"the baseline {str(file)!r} cannot be read: {how} ({error})") from None


def parse_share(text: str) -> float:
    """Return a share, written as 2% or 0.02.

    >>> parse_share("2%"), parse_share("0.02")
    (0.02, 0.02)
    """
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InputError(f"--fail-above takes a share of wrong labels, such as 2% or 0.02, got {text!r}")
    return share


def refuse_other_file(file: Path | None, kind: str) -> None:
    """Raise an InputError if a file is there that is no earlier output of the option `kind`: it may be data."""
    if file is None or not file.exists():
        return
    with require_file(file).open("rb") as stream:
        if (head := stream.read(200)) and _MARKS[kind] not in head:  # `mktemp` makes empty ones
            raise InputError(f"{str(file)!r} is there already, and no earlier output of --{kind}; name another file")


def parse_signals(text: str | None) -> list[str]:
    """Return the names of --fail-on, separated by commas."""
    names = [] if text is None else list(dict.fromkeys(name.strip() for name in text.split(",")))
    if strange := [name for name in names if name not in SIGNALS]:
        raise InputError(f"--fail-on takes {', '.join(SIGNALS)}, separated by commas, got {strange[0]!r}")
    return names


def new_issues(batch: CheckedBatch, baseline: Collection[str] = ()) -> npt.NDArray[np.int64]:
    """Return the positions of the label issues that are not in the baseline, the worst first."""
    findings = batch.findings
    worst = findings.worst_positions(int(findings.is_label_issue.sum()))
    return np.array([at for at in worst.tolist() if str(findings.ids[at]) not in baseline], np.int64)


def reasons(
    batch: CheckedBatch, fail_above: float | None, fail_on: Collection[str], baseline: Collection[str] = ()
) -> list[str]:
    """Return why the batch does not pass; none if it does.

    With `fail_above`, the whole 90 % interval of the noise rate must lie above it. `new-issues` are labels that are
    very unlikely to be right. Of clean batches at most one in 20 fails by each. Samples in the baseline do not count.
    A run without vectors cannot tell that all is well: what it does not tell is an InputError.
    """
    lines, findings = [], batch.findings
    if fail_above is not None:
        scored = ~np.isnan(findings.label_quality)
        counted = scored & ~np.isin(findings.ids.astype(str), list(baseline))
        if findings.noise is None:
            rate = float(findings.is_label_issue[counted].sum() / max(counted.sum(), 1))
            low, shown = rate, f"{rate:.1%}"
        else:
            rate = float((1 - findings.label_quality[counted]).sum() / max(counted.sum(), 1))
            low = max(rate - (findings.noise.rate - findings.noise.low), 0.0)
            shown = f"{rate:.1%} (at least {low:.1%} with 95 % confidence)"
        if low > fail_above:
            lines.append(f"the share of wrong labels is {shown}, above {100 * fail_above:.3g}%")
    alarming = set(map(str, batch.facts["alarming"]))
    issues = [str(findings.ids[at]) for at in new_issues(batch, baseline).tolist()]
    issues = [name for name in issues if name in alarming]
    for name in fail_on:
        if name not in ("new-issues", *batch.signals) and not batch.facts["compared"]:
            reason = "it keeps no vectors of its samples"
            raise InputError(f"--fail-on {name} cannot be told by the run {batch.facts['run']!r}: {reason}")
        if name == "new-issues" and issues:
            them = "label is" if len(issues) == 1 else "labels are"
            new = " and not in the baseline" if baseline else ""
            lines.append(f"{len(issues):,} {them} very unlikely to be right{new}, first {printable(issues[0])}")
        elif name != "new-issues" and name in batch.signals:
            lines.append(batch.signals[name])
    return lines


def write_junit(file: Path, batch: CheckedBatch, failed: list[str], baseline: Collection[str] = ()) -> None:
    """Write the gate as one test and every label issue as another, failed unless it is in the baseline."""
    findings, results = batch.findings, list(_results(batch))
    suite = ET.Element("testsuite", name="jnpl check", errors="0", skipped="0")
    gate = ET.SubElement(suite, "testcase", classname="jnpl.check", name="gate")
    if failed:
        ET.SubElement(gate, "failure", message="; ".join(failed), type="gate").text = "\n".join(failed)
    listed = [result for result in results if str(findings.ids[result[1]]) not in baseline]
    for rule, at, message in listed:
        case = ET.SubElement(suite, "testcase", classname=f"jnpl.check.{rule}", name=_xml(str(findings.ids[at])))
        ET.SubElement(case, "failure", message=_xml(message), type=rule).text = _xml(message)
    suite.set("tests", str(1 + len(listed)))
    suite.set("failures", str(bool(failed) + len(listed)))
    root = ET.Element("testsuites")
    root.append(suite)
    write_text(file, '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n")


def write_sarif(file: Path, batch: CheckedBatch, data: str, baseline: Collection[str] = ()) -> None:
    """Write every sample with a problem as a result of SARIF 2.1.0, at its file or at its row of the table `data`."""
    findings = batch.findings
    results = []
    for rule, at, message in _results(batch):
        name = str(findings.ids[at])
        path = Path(batch.data.source.root or "", name) if findings.paths is not None else Path(data)
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
        if findings.paths is None and isinstance(findings.ids[at], int | np.integer):
            place["region"] = {"startLine": int(findings.ids[at]) + 2}  # below the line of the names
        results.append(
            {
                "ruleId": rule,
                "level": _RULES[rule][1],
                "message": {"text": message},
                "locations": [{"physicalLocation": place}],
                "partialFingerprints": {"jnplSample/v1": f"{rule}:{name}"},
                "baselineState": "unchanged" if name in baseline else "new",
            }
        )
    rules = [{"id": rule, "shortDescription": {"text": title}} for rule, (title, _) in _RULES.items()]
    home = "https://pypi.org/project/jnpl/"
    driver = {"name": "jnpl", "version": __version__, "informationUri": home, "rules": rules}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    write_text(file, json.dumps(log, indent=1) + "\n")


def _results(batch: CheckedBatch) -> Iterator[tuple[str, int, str]]:
    """Yield rule, position and message of every problem of one sample, label issues first."""
    findings, facts = batch.findings, batch.facts
    names = findings.class_names or range(findings.num_classes)
    for at in new_issues(batch).tolist():
        given, better = names[findings.given_labels[at]], names[findings.suggested_labels[at]]
        looks = f"looks like {better}" if better != given else "is in doubt"
        yield "wrong-label", at, f"labelled {given}, {looks} (label quality {findings.label_quality[at]:.3f})"
    position = {str(name): at for at, name in enumerate(findings.ids.tolist())}
    for copy in facts.get("copies", ()):
        text = f"labelled {copy['label']}; sample {copy['run_id']} of the run is the same, labelled {copy['run_label']}"
        yield "copy-of-the-run", position[str(copy["id"])], text
    for far in facts.get("far", ()):
        text = f"only {far['p_value']:.2%} of the run's samples are as far from all others"
        yield "like-nothing-in-the-run", position[str(far["id"])], text
    strange = {unknown["class"] for unknown in facts["unknown_classes"]}
    for at in np.flatnonzero([names[label] in strange for label in findings.given_labels.tolist()]).tolist():
        yield "unknown-class", at, f"labelled {names[findings.given_labels[at]]}, a class that the run does not know"


def _xml(text: str) -> str:
    """Return a text without the control characters that XML forbids."""
    return "".join(letter if letter >= " " or letter in "\t\n" else "?" for letter in printable(text))


def _uri(path: Path) -> str:
    """Return a path from the working directory, as pages of CI systems take it, or a whole one if it is elsewhere."""
    here, whole = Path.cwd(), Path(os.path.abspath(path))  # noqa: PTH100 - without "..", and links as they are
    return quote(whole.relative_to(here).as_posix()) if whole.is_relative_to(here) else whole.as_uri()
