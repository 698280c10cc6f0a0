"""Lightning: the loss is an attribute of the module; a short callback updates the monitor and puts it in checkpoints.

Run it: pip install lightning; python examples/lightning_callback.py
"""

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jnpl import Monitor, RobustLoss, metrics, noise


class MonitorCallback(L.Callback):
    """Updates a monitor with the logits that `training_step` returned."""

    def __init__(self, monitor):
        self.monitor = monitor

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.monitor.update(batch[2], outputs["logits"])  # several devices: gather both first

    def state_dict(self):
        return self.monitor.state_dict()

    def load_state_dict(self, state_dict):
        self.monitor.load_state_dict(state_dict)


class Classifier(L.LightningModule):
    """A usual module whose `training_step` also returns the logits."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.criterion = RobustLoss(num_classes=10)  # follows train(), eval() and devices, and is in checkpoints

    def training_step(self, batch, batch_idx):
        x, y, _ = batch
        logits = self.network(x)
        return {"loss": self.criterion(logits, y), "logits": logits.detach()}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


L.seed_everything(0)
images, true_labels = load_digits(return_X_y=True)
labels = noise.symmetric(true_labels, rate=0.2, num_classes=10, seed=0)  # 20 % of the labels are wrong
inputs = torch.tensor(images / 16, dtype=torch.float32)
dataset = TensorDataset(inputs, torch.tensor(labels), torch.arange(len(labels)))  # the position of each sample

monitor = Monitor(num_samples=len(dataset), num_classes=10)
trainer = L.Trainer(
    max_epochs=10,
    callbacks=[MonitorCallback(monitor)],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Classifier(), DataLoader(dataset, batch_size=64, shuffle=True))

findings = monitor.findings(labels)
ap = metrics.average_precision(findings.label_quality, labels != true_labels)
print(f"{findings.is_label_issue.sum()} of {len(labels)} labels look wrong; AP of the ranking {ap:.3f}")
