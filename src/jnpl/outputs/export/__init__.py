"""Findings and models in formats that other programs read: one module per format, which `targets` lists."""
