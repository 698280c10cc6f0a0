"""Experiments, each of many runs: `jnpl bench`, `jnpl reproduce` and `jnpl demo`.

- `variants`, `paper_variants`: methods with their settings; `spec`: a run, which is a variant on data with noise and a
  seed; `scales`: how much of the paper's data and schedule a run has; `paper`: the numbers that the paper prints.
- `run_data`: the samples of a run, `features`: those of scales on embeddings.
- `runner`: trains one run as a process; `observer` notes its figures after every epoch (`ranking_figures` for
  `jnpl bench`, `confidence_figures` for `jnpl reproduce`); `cross_validation` is the variant cleanlab.
- `execute`: trains the runs of an experiment here or on Ray; `process`: a run as a process, which ends with
  its parent; `status`: the progress.
- `results`: files of results; `result_tables` and `plots` show those of `jnpl bench`.
- `reproduce`: the paper's figures and tables; `demo`: `jnpl demo`; `style`: that of all figures.
"""
