"""The model of a run as a folder with a model card, and on the Hugging Face hub.

`save_pretrained` writes the folder, `push_to_hub` uploads it, `jnpl.load("hf:USER/NAME")` reads it again.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from jnpl._version import __version__
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.importing import is_own_code, require
from jnpl.outputs.saved_model import SavedModel
from jnpl.run_folder import RunFolder

_FILES = ["model.json", "model.safetensors", "backbone.safetensors"]
_TASKS = {"image": "image-classification", "text": "text-classification", "vector": "tabular-classification"}
_CARD = """---
library_name: jnpl
pipeline_tag: {task}
tags: [jnpl, noisy-labels]
---

# {name}

A classifier of {kinds} with {count} classes ({classes}), trained by jnpl {version} on labels of which some
may be wrong (*Joint Negative and Positive Learning for Noisy Labels*, CVPR 2021).

```python
import jnpl

model = jnpl.load("{place}")
model.predict({example})
```

{facts}

The backbone is {backbone}. The training data and their labels are not part of this folder.
"""


def save_pretrained(run: str | os.PathLike[str], folder: str | os.PathLike[str], *, name: str | None = None) -> Path:
    """Write the model of a finished run and a model card into a new folder, which `jnpl.load` reads.

    Args:
        folder: a new or empty folder.
        name: the name in the model card; by default that of the folder.
    """
    source, target = RunFolder(run), Path(folder)
    model = SavedModel.load(run)  # wrong or unfinished runs are an error before anything is written
    facts = json.loads(source.model_facts.read_text("utf-8"))
    facts["results"] = _present_results(source, facts.get("results") or {})
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{str(target)!r} is there already; name a new folder")
    make_folder(target)
    write_text(RunFolder(target).model_facts, json.dumps(facts, indent=1) + "\n")
    for weights in (source.model_weights, source.backbone_weights):  # the second only if a backbone was fitted
        if weights.is_file():
            shutil.copyfile(weights, target / weights.name)
    write_text(target / "README.md", model_card(model, facts, name or target.resolve().name, place=str(folder)))
    return target


def _present_results(run: RunFolder, stored: dict[str, Any]) -> dict[str, Any]:
    """Return the results of model.json without the path of the run, and with the label issues that it has now.

    `jnpl report --budget` and the like choose the label issues anew after the model was written.
    """
    results = {name: value for name, value in stored.items() if name != "run"}  # a path on this machine
    if run.has_findings():
        findings = run.findings
        if results.get("issues") != (issues := int(findings.is_label_issue.sum())):
            results.pop("relabel_accuracy", None)  # of the issues before
        results |= {"issues": issues, "noise_rate": findings.noise_facts["noise_rate"]}
    return results


def push_to_hub(
    run: str | os.PathLike[str],
    name: str,
    *,
    private: bool = False,
    token: str | None = None,
    message: str | None = None,
) -> str:
    """Upload the model of a finished run with a model card to the Hugging Face hub (extra `hf`).

    Args:
        run: the run folder.
        name: USER/NAME on the hub; it is created if it does not exist.
        private: create it as a private one.
        token: of the hub; by default that of `hf auth login`.
        message: of the commit.

    Returns:
        The address of the commit.
    """
    hub = require("huggingface_hub", "hf")
    with tempfile.TemporaryDirectory() as work:
        folder = save_pretrained(run, Path(work, "model"), name=name)
        card = (folder / "README.md").read_text("utf-8")
        write_text(folder / "README.md", card.replace(f'jnpl.load("{folder}")', f'jnpl.load("hf:{name}")'))
        api = hub.HfApi(token=token)
        try:
            api.create_repo(name, private=private, exist_ok=True)
            done = api.upload_folder(
                repo_id=name, folder_path=folder, commit_message=message or f"Upload by jnpl {__version__}"
            )
        except Exception as error:  # no network, no permission, a name that is not valid: the hub says which
            raise InputError(f"cannot upload to {name!r}: {one_line(error)}") from error
    return str(done.commit_url)


def download(name: str) -> Path:
    """Return the local folder of a model on the hub; one that would run code of its own choice is refused."""
    hub = require("huggingface_hub", "hf")
    try:
        folder = Path(hub.HfApi().snapshot_download(name, allow_patterns=_FILES))
        facts = json.loads((folder / "model.json").read_text("utf-8"))
        backbone = facts.get("backbone") or {}
        named = [str(facts["model"]), str(backbone.get("name", ""))]
    except Exception as error:
        raise InputError(f"cannot load {name!r} from the hub: {one_line(error)}") from error
    if code := [part for part, network in zip(named, (True, False), strict=True) if is_own_code(part, network=network)]:
        raise InputError(
            f"{name!r} names code to import, {code[0]!r}; only models of jnpl's own kinds are loaded from the hub"
        )
    return folder


def model_card(model: SavedModel, facts: dict[str, Any], name: str, place: str) -> str:
    """Return the README.md of a model: what it is, how to use it, how it was trained."""
    results = facts.get("results", {})
    rows = {
        "training samples": ("samples", ","),
        "labels that looked wrong": ("issues", ","),
        "estimated noise rate": ("noise_rate", ".3f"),
        "test accuracy, last epoch": ("test_accuracy", ".4f"),
    }
    lines = [(what, format(results[key], form)) for what, (key, form) in rows.items() if results.get(key) is not None]
    shown = [str(label) for label in model.classes]
    return _CARD.format(
        name=name,
        place=place,
        task=_TASKS[model.kind],
        kinds={"image": "images", "text": "texts", "vector": "vectors or table rows"}[model.kind],
        count=len(shown),
        classes=", ".join(shown[:20]) + (", ..." if len(shown) > 20 else ""),
        version=__version__,
        example={"image": '"photos/"', "text": '["a text"]', "vector": "x"}[model.kind],
        facts="\n".join(["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in lines)]),
        backbone=(facts.get("backbone") or {}).get("name", "part of the network: there is no other"),
    )
