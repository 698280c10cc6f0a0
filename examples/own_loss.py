"""A loss that does not memorise wrong labels in your own training loop, instead of cross-entropy.

Run it: python examples/own_loss.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jnpl import Monitor, RobustLoss, metrics, noise

torch.manual_seed(0)
images, true_labels = load_digits(return_X_y=True)
labels = noise.symmetric(true_labels, rate=0.4, num_classes=10, seed=0)  # 40 % of the labels are wrong
inputs = torch.tensor(images / 16, dtype=torch.float32)
dataset = TensorDataset(inputs, torch.tensor(labels), torch.arange(len(labels)))
network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

criterion = RobustLoss(num_classes=10)  # needs no index, no noise rate and no number of epochs
monitor = Monitor(num_samples=len(dataset), num_classes=10)
for _epoch in range(30):
    for x, y, index in DataLoader(dataset, batch_size=64, shuffle=True):
        logits = network(x)
        loss = criterion(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.update(index, logits)

findings = monitor.findings(labels)
ap = metrics.average_precision(findings.label_quality, labels != true_labels)
right = metrics.accuracy(findings.suggested_labels, true_labels)
print(f"{findings.is_label_issue.sum()} of {len(labels)} labels look wrong; AP of the ranking {ap:.3f}")
print(f"given labels are right in {(labels == true_labels).mean():.1%}, suggested ones in {right:.1%}")
