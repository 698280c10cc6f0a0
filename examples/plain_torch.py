"""A training loop in plain PyTorch: the monitor is updated with every batch and finds the wrong labels.

Run it: python examples/plain_torch.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jnpl import Monitor, metrics, noise

torch.manual_seed(0)
images, true_labels = load_digits(return_X_y=True)
labels = noise.symmetric(true_labels, rate=0.2, num_classes=10, seed=0)  # 20 % of the labels are wrong
inputs = torch.tensor(images / 16, dtype=torch.float32)
dataset = TensorDataset(inputs, torch.tensor(labels), torch.arange(len(labels)))  # the position of each sample
network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)

monitor = Monitor(num_samples=len(dataset), num_classes=10)
for _epoch in range(10):
    for x, y, index in DataLoader(dataset, batch_size=64, shuffle=True):
        logits = network(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.update(index, logits)

findings = monitor.findings(labels)
print(findings.worst(5)[["given_label", "suggested_label", "label_quality"]])
ap = metrics.average_precision(findings.label_quality, labels != true_labels)
print(f"{findings.is_label_issue.sum()} of {len(labels)} labels look wrong; AP of the ranking {ap:.3f}")
