"""Data: what the user calls DATA -> a `Source` (inputs, given labels) -> batches of (inputs, labels, index).

- `opening`: open data of any form (`open_source`)
- `options`: how to open them (`OpenOptions`)
- `datasets`: the data sets that have a name (`DATASETS`)
- `source`: what a labelled data set is (`Source`)
- `sources/`: a loader for each form of data
- `spellings`: class names that differ in spelling only
- `tags`: several tags per sample, from lists, columns of 0 and 1, or matrices
- `join`: two sources as one
- `split`: parts of a source, held-out samples, test data
- `loading/`: prepared samples, augmentation, batches
- `decision_files`: decisions made elsewhere: Label Studio, CVAT, FiftyOne, tables
- `label_files`: labels in files, and sources with labels from a file
- `new_data`: data to predict (`open_new`)
"""
