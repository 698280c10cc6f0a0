"""Ways to learn from noisy labels: one file, one small class, one `step` each."""
