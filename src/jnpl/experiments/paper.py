"""Numbers that the paper prints, and the order in which it names methods, noises and rates."""

Setting = tuple[str, float]  # noise, rate

SYMM: tuple[Setting, ...] = (("symm", 0.2), ("symm", 0.4), ("symm", 0.6), ("symm", 0.8))
ASYMM: tuple[Setting, ...] = (("asymm", 0.1), ("asymm", 0.2), ("asymm", 0.3), ("asymm", 0.4))
SETTINGS = SYMM + ASYMM
CAT = 3  # of CIFAR-10: Figure 6 is of samples given this label
DATA_NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cifar10n": "CIFAR-10N",
    "cifar100n": "CIFAR-100N",
    "clothing1m": "Clothing1M",
}

STAGES = {"nl": "NL", "selnl": "SelNL", "selpl": "SelPL"}  # of NLNL

# Variant -> the name that the paper has for it; the last is not in the paper.
METHODS = {
    "ce": "CE",
    "co-teaching": "Co-teaching",
    "jocor": "JoCoR",
    "nfl-rce": "NFL+RCE",
    "nce-rce": "NCE+RCE",
    "nlnl": "NLNL",
    "jnpl": "JNPL",
    "fast": "fast (not in the paper)",
}

# Table 1: test accuracy in percent, in the order of SETTINGS; None where it prints "-". One run each: no spread.
TABLE1: dict[str, dict[str, tuple[float | None, ...]]] = {
    "cifar10": {
        "ce": (83.95, 67.58, 43.55, 17.32, 91.39, 87.67, 82.73, 76.37),
        "co-teaching": (91.08, 88.08, 80.96, 21.13, 94.20, 93.24, 90.67, 70.20),
        "jocor": (91.84, 88.15, 59.20, 20.72, 93.13, 91.19, 89.01, 83.61),
        "nfl-rce": (90.50, 85.16, 70.77, 19.67, 92.35, 89.66, 84.92, 78.30),
        "nce-rce": (90.36, 84.57, 74.09, 26.71, 91.89, 90.13, 85.80, 78.49),
        "nlnl": (94.23, 92.43, 88.32, None, 94.57, 93.35, 91.80, 89.86),
        "jnpl": (93.53, 91.89, 88.45, 35.65, 94.22, 93.45, 92.47, 90.72),
    },
    "cifar100": {
        "ce": (57.32, 45.64, 24.30, 8.06, 65.12, 62.12, 52.77, 44.55),
        "co-teaching": (69.56, 62.81, 51.12, 10.25, 72.52, 67.46, 61.50, 52.86),
        "jocor": (71.75, 63.96, 37.84, 7.32, 72.01, 65.05, 56.63, 45.14),
        "nfl-rce": (58.70, 42.76, 24.77, 10.57, 63.70, 56.45, 46.96, 37.52),
        "nce-rce": (57.41, 43.75, 25.87, 9.94, 64.24, 56.48, 47.17, 36.40),
        "nlnl": (71.52, 66.39, 56.51, None, 70.35, 63.12, 54.87, 45.70),
        "jnpl": (70.94, 68.11, 61.26, 17.55, 72.03, 69.95, 68.12, 59.51),
    },
}

# Table 2: test accuracy in percent on Clothing1M; all but the last are quoted there, not run again.
TABLE2 = {
    "ce": ("CE", 69.21),
    "forward": ("Forward", 69.84),
    "m-correction": ("M-correction", 71.00),
    "limit": ("LIMIT", 71.39),
    "joint-optim": ("Joint-Optim", 72.16),
    "metacleaner": ("MetaCleaner", 72.50),
    "mlnt": ("MLNT", 73.47),
    "pencil": ("PENCIL", 73.49),
    "jnpl": ("JNPL", 74.15),
}


def printed(data: str, variant: str, setting: Setting) -> float | None:
    """What Table 1 says, in percent; None where it says nothing.

    >>> printed("cifar10", "jnpl", ("symm", 0.6)), printed("cifar10", "nlnl", ("symm", 0.8))
    (88.45, None)
    """
    row = TABLE1.get(data, {}).get(variant)
    return None if row is None else row[SETTINGS.index(setting)]


def percent(rate: float) -> str:
    """A rate as the paper writes it.

    >>> percent(0.6)
    '60'
    """
    return f"{100 * rate:g}"
