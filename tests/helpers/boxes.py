"""Small data sets of boxes: four pages with three squares each, as COCO and as YOLO."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

NAMES = {7: "red", 3: "green", 9: "never", 5: "blue"}  # category id -> name, not in order
COLOURS = {7: (250, 0, 0), 3: (0, 250, 0), 5: (0, 0, 250)}
WIDTH, HEIGHT, SIDE = 60, 24, 12
LEFTS = (2, 22, 42)


def pages(folder: Path) -> None:
    """Write images/0.png to images/3.png: a red, a green and a blue square on white."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for page in range(4):
        pixels = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
        for left, colour in zip(LEFTS, COLOURS.values(), strict=True):
            pixels[6 : 6 + SIDE, left : left + SIDE] = colour
        Image.fromarray(pixels).save(folder / "images" / f"{page}.png")


def coco_content() -> dict[str, Any]:
    """Return the content of a COCO file; annotations of the pages alternate, and two of page 3 have the wrong class."""
    boxes = [(page, left, number) for left, number in zip(LEFTS, COLOURS, strict=True) for page in range(4)]
    wrong = {(3, LEFTS[0]): 3, (3, LEFTS[1]): 5}
    return {
        "info": {"year": 2026, "scale": 1.5e-7},
        "categories": [{"id": number, "name": name, "supercategory": "colour"} for number, name in NAMES.items()],
        "images": [
            {"id": 10 + page, "file_name": f"{page}.png", "width": WIDTH, "height": HEIGHT} for page in range(4)
        ],
        "annotations": [
            {
                "id": 100 + at,
                "image_id": 10 + page,
                "category_id": wrong.get((page, left), number),
                "bbox": [left, 6, SIDE, SIDE],
                "area": SIDE * SIDE,
                "segmentation": [[left, 6.25, left + 3, 9]],
            }
            for at, (page, left, number) in enumerate(boxes)
        ],
    }


def coco(folder: Path, **changes: Any) -> Path:
    """Write the pages and instances.json with other entries; return its path."""
    pages(folder)
    path = folder / "instances.json"
    path.write_text(json.dumps(coco_content() | changes), "utf-8")
    return path


def yolo(folder: Path, names: str = "[red, green, blue]") -> Path:
    """Write the pages, label files and data.yaml; page 2 has no label file, page 3 a polygon and a confidence."""
    pages(folder)
    (folder / "labels").mkdir(exist_ok=True)
    (folder / "data.yaml").write_text(f"path: .\ntrain: images\nval: images\nnc: 3\nnames: {names}\n")
    shares = [f"{(left + SIDE / 2) / WIDTH:.6f} 0.5 {SIDE / WIDTH} {SIDE / HEIGHT}" for left in LEFTS]
    for page in (0, 1):
        lines = [f"{number} {share}\n" for number, share in enumerate(shares)]
        (folder / "labels" / f"{page}.txt").write_text("".join(lines))
    polygon = b" 1.0 0.4 0.25  0.5 0.25 0.5 0.75\r\n"
    (folder / "labels" / "3.txt").write_bytes(b"\r\n" + polygon + f"2\t{shares[0]} 0.9".encode())
    return folder / "data.yaml"
