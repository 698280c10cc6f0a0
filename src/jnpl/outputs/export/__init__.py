"""Findings and models in formats that other programs read: one module per format, listed in `targets`.

- Findings: `findings_table` (csv, parquet, json, cleanlab), `label_studio`, `fiftyone`, `hf_dataset`.
- Models: `onnx`.
"""
