"""Helpers that every other part of the package may use.

- `errors`: the exceptions raised for wrong input, an exception's message on one line, and checks of numbers
- `files`: files that are written completely or not at all, and the refusal to read what is no file
- `json_files`: JSON that may be damaged or hostile, and facts in files of ours, checked when they are read
- `tensors`: arrays as tensors, and plain numbers in checkpoints
- `terminal`: texts of others, safe to print
- `importing`: optional dependencies, and functions or classes named as "package.module:name"
- `devices`: the PyTorch device that a name such as "auto" or "gpu" means on this machine, and its threads
- `allocator`: freed memory is kept for the next layer of a network, large arrays are memory maps
- `progress`: progress of work that consists of parts
- `settings`: the base classes of all settings
- `tables`: table files (.csv, .parquet, .json), written and read in one place
- `locks`: locks on files, which end with their process
- `ray_cluster`: the connection to a Ray cluster, or a cluster on this machine
- `pictures`: small pictures as PNG or JPEG
- `provenance`: versions and commit, stored beside results
"""
