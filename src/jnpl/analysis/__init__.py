"""Analysis: what the embeddings say of the data, labels aside.

- `short_vectors`: embeddings shortened to 256 numbers
- `neighbours`: near duplicates and outliers, by the nearest neighbours of embeddings
- `problems`: duplicates, outliers, unreadable samples and tiny classes
- `leaks`: columns of a table that predict the given label alone, test samples that are training samples
- `sure_samples`: the nearest samples that surely have a class, to compare a suspect with
- `reference`: short vectors of a run's samples, and new samples beside them
- `data_report`: what a finished run stores about its data, for the report and the review
"""
