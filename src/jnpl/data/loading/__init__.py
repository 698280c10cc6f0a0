"""Loading: a source -> batches on the device.

- `prepare`: samples in memory, in a cache file, or decoded on demand
- `augment`: random crops and flips, and standardisation
- `strong_augment`: strong views of images
- `batches`: a batch, the order of an epoch, and random generators
- `feed`: the batches of a run (`Feed`)
"""
