"""Methods for learning from noisy labels: one paper, one file, one small class with one `step`.

- `base`: the contract between the training loop and a method (`Method`, `Task`, `Stage`, `StepOutput`), and
  what several methods share
- `registry`: methods by name; each has a file of its own, but for those in `plain`, and a page in docs/methods
- `plain`: the methods that are one loss on the given labels: CE, MAE, SCE, NCE+RCE and NFL+RCE
- `two_networks`, `small_loss`: base classes of methods that have two networks, and that select samples by a small loss
- `jnpl`: JNPL, the paper alone; `varied_jnpl`: settings that vary its two losses; `extended_jnpl`, what the name `jnpl`
  stands for: settings for short trainings
- `refinement`: the second stage of `refined_nl`, the default on embeddings
- `beta_mixture`: the mixture of two Beta distributions of M-correction
- `pseudo_label`: training on pseudo-labels, the second part of `jnpl train`
"""
