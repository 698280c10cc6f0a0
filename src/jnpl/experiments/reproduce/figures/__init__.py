"""The six figures: results in, PNG and SVG out."""
