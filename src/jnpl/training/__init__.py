"""Source and recipe -> findings and a classifier, in a run folder or in memory.

run            `find`: one run from data to result
session        a run while it trains, phase after phase; owns its state
loop           the training loop
phases         the phases of a run: stages of the method, then pseudo-labels
pseudo_labels  settings and targets of the phases with pseudo-labels
feeds          source and recipe -> batches
learner        a method with optimiser, averaged weights and best weights
records        what is recorded of every sample
evaluation     the one loop that predicts in evaluation mode; accuracy
scoring        predictions -> findings
results        what a run returns, prints with --json and leaves as model files
epoch_view     what an observer sees at the end of an epoch
epoch_log      the lines of a run: metrics.jsonl, TensorBoard
reporting      what a run prints
checkpoint     checkpoint files
run_folder     the run folder
interrupt      signals as requests to stop
processes      device and processes of a run, and what they exchange
"""
