"""Embedding: images or texts -> vectors of a pretrained network, computed once and cached.

- `backbones`: pretrained networks by name: images or texts -> embeddings
- `efficientnet`: EfficientNet-Lite0 with its ImageNet weights, the default backbone of images
- `hf_backbone`: networks of transformers, for images and for texts (extra `hf`)
- `timm_backbone`: networks of timm, for images (extra `timm`)
- `user_backbone`: the user's own network or function: `package.module:factory`
- `minilm`: all-MiniLM-L6-v2, the default backbone of texts where it is installed (extra `text`)
- `tfidf`: TF-IDF and truncated SVD, the default backbone of texts without it
- `choice`: the backbone that suits a data set
- `compute`: a source of images or texts -> a source of embeddings
- `embedding_cache`: embeddings on disk, written block by block
- `ray_embedding`: embedding on a Ray cluster (extra `ray`)
"""
