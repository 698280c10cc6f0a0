"""Methods for learning from noisy labels: one paper, one file, one small class with one `step`.

- `base`: the contract between the training loop and a method (`Method`, `Task`, `Stage`, `StepOutput`)
- `registry`: methods by name
- `plain`: base class of methods that are one loss on the given labels
- `ce`: cross-entropy
- `mae`: mean absolute error
- `gce`: generalized cross-entropy
- `sce`: symmetric cross-entropy
- `nce_rce`, `nfl_rce`: active passive loss (APL)
- `two_networks`: base class of methods with two networks
- `small_loss`: base class of those with small-loss selection
- `co_teaching`, `co_teaching_plus`: Co-teaching, Co-teaching+
- `jocor`: JoCoR
- `nlnl`: NLNL
- `jnpl`: JNPL
- `forward`: forward correction
- `m_correction`, `beta_mixture`: M-correction, and its mixture of two Beta distributions
- `limit`: LIMIT
- `joint_optim`: Joint-Optim
- `metacleaner`: MetaCleaner
- `mlnt`: MLNT
- `pencil`: PENCIL
- `elr`, `elr_plus`: ELR, and ELR+ with two networks
- `sop`, `sop_plus`: SOP, and SOP+ with a strong view
- `dividemix`: DivideMix
- `cores2`: CORES2
- `mixup`: the random draws of mixup
- `pseudo_label`: training on pseudo-labels, the second part of `jnpl train`
"""
