"""Methods beside each other on data whose true labels are known: cells, grids of them, tables."""
