"""A finished run -> report, exports, corrected labels, predictions."""
