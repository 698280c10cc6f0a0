"""Networks: a name or a factory -> a PyTorch module with initial or loaded weights.

- `build`: build a network by name (`MODELS`), from a factory or from a module
- `resnet`: ResNet-18, -34 and -50
- `small`: networks for small images: ResNet-8 and -20, and those of the compared methods
- `backbones`: pretrained networks by name: images or texts -> embeddings
- `efficientnet`: EfficientNet-Lite0 with its ImageNet weights, the default backbone of images
- `hf_backbone`: networks of transformers, for images and for texts (extra `hf`)
- `timm_backbone`: networks of timm, for images (extra `timm`)
- `own_backbone`: the user's own network or function: `package.module:factory`
- `tfidf`: TF-IDF and truncated SVD, the default backbone of texts
- `embedding`: a source of images or texts -> a source of embeddings
- `embedding_cache`: embeddings on disk, written block by block
- `ray_embedding`: embedding on a Ray cluster (extra `ray`)
- `choice`: the backbone that suits a data set
- `mlp`: networks for vectors: a multi-layer perceptron, a linear layer
- `penultimate`: the input of a network's last linear layer
- `weights`: load weights from a file or an address
"""
