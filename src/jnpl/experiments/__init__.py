"""Experiments: grids of cells, `jnpl bench`, `jnpl reproduce` and `jnpl demo`.

- `cell`: what a cell is and how it is named; `cell_data` loads its samples.
- `runner`: trains one cell as a process; `observer` notes its figures after every epoch (`ranking_figures` for
  `jnpl bench`, `confidence_figures` for `jnpl reproduce`); `cross_validation` is the row cleanlab.
- `grid`: runs many cells, with `job` (a cell as a process), `engines` and `ray_engine` (where they run),
  `parent_watch`, `locks`, and `status` (the progress of a grid).
- `results`: files of results; `result_tables` and `plots` show those of `jnpl bench`.
- `bench`: the cells and rows of `jnpl bench`; `reproduce`: the paper's figures and tables; `demo` and
  `demo_figures`: `jnpl demo`.
"""
