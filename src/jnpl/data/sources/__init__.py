"""Each kind of data that a user may have, read into a `Source`."""
