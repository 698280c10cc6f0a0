"""From files and arrays to batches of (inputs, labels, index)."""
