"""Comparisons of methods, the paper's tables and figures, and the demonstration."""
