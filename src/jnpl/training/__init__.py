"""Source and recipe -> findings and a classifier, in a run folder or in memory.

- `embed_first`: embed the data before the run, if a pretrained backbone suits them;
  `finetune`: train a head on the embeddings, then the backbone too.
- `run`: one run from data to result; `run_settings`: its settings, and which do not work together; `session`: a run
  while it trains, phase after phase, and its state.
- `loop`: the training loop; `learner`: a method with optimiser, averaged weights and best weights.
- `phases`: stages of the method, then pseudo-labels; `pseudo_labels`: settings and targets of the latter.
- `feeds`: source and recipe -> batches; `records`: what is recorded of every sample.
- `evaluation`: the one loop that predicts in evaluation mode; `scoring`: predictions -> findings.
- `run_results`: what a run returns, prints with --json and leaves as model files.
- `epoch_view`: what an observer sees at the end of an epoch; `epoch_log`: metrics.jsonl; `tracking`: TensorBoard,
  MLflow, Weights & Biases; `reporting`: what a run prints.
- `checkpoint`: files to resume from; `interrupt`: signals to stop.
- `processes`: device and processes of a run, and what they exchange.
"""
