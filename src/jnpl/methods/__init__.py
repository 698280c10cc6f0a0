"""Methods for learning from noisy labels: one paper, one file, one small class with one `step`.

- `base`: the contract between the training loop and a method (`Method`, `Task`, `Stage`, `StepOutput`).
- `registry`: methods by name.
- `plain`: base class of methods that are one loss on the given labels: `ce`, `mae`, `sce`, `nce_rce`, `nfl_rce`.
- `small_loss`: base class of methods with two networks and small-loss selection: `co_teaching`, `jocor`.
- `gce`, `forward`, `joint_optim`, `limit`, `m_correction` (with `beta_mixture`), `metacleaner`, `mlnt`, `nlnl`,
  `pencil`, `jnpl`: the other papers.
- `pseudo_label`: training on pseudo-labels, the second part of `jnpl train`.
"""
