"""Experiments: grids of cells, `jnpl bench`, `jnpl reproduce` and `jnpl demo`.

- `rows`: the table of recipes; `cell`: a row on data with noise and a seed; `cell_data` loads its samples, `features`
  those of scales on embeddings.
- `runner`: trains one cell as a process; `observer` notes its figures after every epoch (`ranking_figures` for
  `jnpl bench`, `confidence_figures` for `jnpl reproduce`); `cross_validation` is the row cleanlab.
- `grid`: runs many cells, with `job` (a cell as a process), `engines` and `ray_engine` (where they run),
  `parent_watch`, and `status` (the progress of a grid).
- `results`: files of results; `result_tables` and `plots` show those of `jnpl bench`.
- `reproduce`: the paper's figures and tables; `demo` and `demo_figures`: `jnpl demo`; `style`: that of all figures.
"""
