"""Loaders: each form of data that a user may have -> a `Source`.

- `folder`: a folder of images with one sub-folder per class
- `table`: .csv, .tsv and .parquet tables and data frames, with `encoding` (columns to features), `columns` (types and
  values of one column) and `sample_columns` (images and texts inside it)
- `boxes`: boxes of objects in images (COCO, YOLO)
- `votes`: labels of several annotators
- `user_embedding`: the user's own function that embeds texts or images
- `arrays`: arrays, tensors, lists, sparse matrices and .npz files
- `torch_dataset`: any data set of (input, label) items
- `huggingface`: data sets of the Hugging Face hub
- `bundled`: data sets that ship with scikit-learn
- `cifar`, `cifarn`, `clothing1m`: named data sets
- `images`: decoding of image files, and of encoded images in memory
- `download`: downloads, and the folder for data sets
"""
