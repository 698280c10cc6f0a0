"""From a `Source` to batches of (inputs, labels, index)."""
