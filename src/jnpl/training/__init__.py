"""A source and a recipe -> a run folder: the loop, the run, checkpoints, evaluation, pseudo-labels."""
