"""Source and recipe -> a trained method and a classifier; `jnpl.pipeline` judges the labels in between.

- `session`: a run while it trains, phase after phase; `run_setup`: what of it stays the same, `training_state`: what
  changes, and what a checkpoint holds; `run_callback`: what it does between steps and epochs.
- `loop`: the training loop; `heads`: that of a linear head with its out-of-fold siblings, without autograd;
  `learner`: a method with optimiser, averaged weights and best weights.
- `phases`: stages of the method, then pseudo-labels; `pseudo_labels`: settings and targets of the latter.
- `feeds`: source and recipe -> batches; `records`: what is recorded of every sample.
- `evaluation`: the one loop that predicts in evaluation mode.
- `finetune`: the recipe that trains a backbone too, after a head on its embeddings.
- `tag_training`: heads with one output per tag, and the given tags judged by them.
- `run_results`: what a run returns, prints with --json and leaves as model files.
- `epoch_view`: what an observer sees at the end of an epoch; `epoch_log`: metrics.jsonl, TensorBoard,
  MLflow, Weights & Biases; `reporting`: what a run prints.
- `checkpoint`: files to resume from; `interrupt`: signals to stop.
- `processes`: device and processes of a run, and what they exchange.
"""
