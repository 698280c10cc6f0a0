"""Networks: a name or a factory -> a PyTorch module with initial or loaded weights.

- `build`: build a network by name (`MODELS`), from a factory or from a module
- `resnet`: ResNet-18, -34 and -50
- `small`: networks for vectors (a multi-layer perceptron, a linear layer) and for small images (ResNet-8 and -20, and
  those of the compared methods)
- `head_matrix`: a linear head and its siblings of the folds, trained as one matrix
- `tag_head`: a linear layer with an output per tag, calibrated for the true tags
- `penultimate`: the input of a network's last linear layer
- `weights`: load weights from a file or an address
"""
