"""The Hugging Face Trainer: the loss is an attribute of the model; the monitor is updated in `compute_loss`.

Run it: pip install "transformers[torch]"; python examples/huggingface_trainer.py
"""

import tempfile

import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

from jnpl import Monitor, RobustLoss, metrics, noise


class MonitoredTrainer(Trainer):
    """Updates a monitor with every training batch; samples have an "index" besides inputs and labels."""

    def __init__(self, *args, monitor, **kwargs):
        super().__init__(*args, **kwargs)
        self.monitor = monitor

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        index = inputs.pop("index", None)
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
        if model.training:  # several processes: self.accelerator.gather both first
            self.monitor.update(index, outputs.logits)
        return (loss, outputs) if return_outputs else loss


class Digits(Dataset):
    """Images (1, 8, 8), labels of which some are wrong, and the position of each sample."""

    def __init__(self, images, labels):
        self.images, self.labels = torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8), labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"pixel_values": self.images[index], "labels": int(self.labels[index]), "index": index}


set_seed(0)
images, true_labels = load_digits(return_X_y=True)
labels = noise.symmetric(true_labels, rate=0.2, num_classes=10, seed=0)  # 20 % of the labels are wrong
shape = {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
width = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
network = ViTForImageClassification(ViTConfig(**shape, **width))  # very small, random weights
network.criterion = RobustLoss(num_classes=10)  # follows train(), eval() and devices, and is in checkpoints

monitor = Monitor(num_samples=len(labels), num_classes=10)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=20,
        per_device_train_batch_size=64,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
    )
    trainer = MonitoredTrainer(
        network,
        arguments,
        train_dataset=Digits(images, labels),
        compute_loss_func=lambda outputs, targets, **_: network.criterion(outputs.logits, targets),
        monitor=monitor,
    )
    trainer.train()

findings = monitor.findings(labels)
ap = metrics.average_precision(findings.label_quality, labels != true_labels)
print(f"{findings.is_label_issue.sum()} of {len(labels)} labels look wrong; AP of the ranking {ap:.3f}")
