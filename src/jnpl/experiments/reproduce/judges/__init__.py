"""How each claim of the paper is judged: results in, whether they bear it out and the figures out."""
