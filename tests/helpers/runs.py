"""Run folders without a training: findings of one's choice, and networks with first weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.torch import save_file

from jnpl.judging import Findings
from jnpl.models.build import build

CLASSES = ("cat", "dog", "eel")
COLOURS = ((220, 40, 40), (40, 220, 40), (40, 40, 220))


def write_model(folder: Path, model: str, input_shape: tuple[int, ...], **facts: Any) -> None:
    """model.json, model.safetensors and a run.json that is finished; `facts` change or add to model.json's."""
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"model": model, "input_shape": list(input_shape), "classes": list(CLASSES)}
    told |= {"sample_shape": list(input_shape), **facts}
    network = build(model, num_classes=len(told["classes"]), input_shape=input_shape, seed=0)
    save_file({name: value.contiguous() for name, value in network.state_dict().items()}, folder / "model.safetensors")
    (folder / "model.json").write_text(json.dumps(told), "utf-8")
    (folder / "run.json").write_text('{"status": "finished"}', "utf-8")


def vector_model(folder: Path, features: int = 4, **facts: Any) -> Path:
    """An mlp of so many features, whose means are 1, 2, ... and whose deviations are 2."""
    mean = [float(at + 1) for at in range(features)]
    transform = {"kind": "Standardize", "mean": mean, "std": [2.0] * features}
    write_model(folder, "mlp", (features,), transform=transform, **facts)
    return folder


def image_model(folder: Path, side: int = 16, *, crop: int | None = None, channels: int = 3, **facts: Any) -> Path:
    """A resnet8 of square images."""
    transform = {"kind": "CropFlip", "mean": [0.4] * channels, "std": [0.2] * channels, "size": crop or side}
    shape = {"sample_shape": [side, side, channels], **facts}
    write_model(folder, "resnet8", (channels, crop or side, crop or side), transform=transform, **shape)
    return folder


def photos(folder: Path, each: int = 4, seed: int = 0) -> Path:
    """An image folder: so many noisy pictures of a colour in every class."""
    random = np.random.default_rng(seed)
    for name, colour in zip(CLASSES, COLOURS, strict=True):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            pixels = np.clip(random.normal(colour, 25, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def findings(paths: list[str] | None = None, **more: Any) -> Findings:
    """Six samples, labels cat cat cat dog dog eel: 1 looks like a dog (0.8), 2 like an eel (0.6), 3 is in doubt."""
    probs = [
        [0.9, 0.1, 0.0],
        [0.1, 0.8, 0.1],
        [0.3, 0.1, 0.6],
        [0.3, 0.4, 0.3],
        [0.0, 0.95, 0.05],
        [0.05, 0.05, 0.9],
    ]
    told = {"class_names": CLASSES, "paths": paths, **more}
    return Findings.from_probs(probs, [0, 0, 0, 1, 1, 2], **told)


def many_findings(samples: int, classes: int, noise: float = 0.2, seed: int = 0, **more: Any) -> Findings:
    """Confident predictions, and given labels of which a share contradicts them."""
    random = np.random.default_rng(seed)
    true = random.integers(0, classes, samples)
    sure = random.beta(6, 1, samples)
    probs = np.full((samples, classes), (1 - sure[:, None]) / (classes - 1))
    probs[np.arange(samples), true] = sure
    wrong = random.random(samples) < noise
    return Findings.from_probs(
        probs, np.where(wrong, (true + random.integers(1, classes, samples)) % classes, true), **more
    )
