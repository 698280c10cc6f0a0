"""The base classes of all settings, and their flat form."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Settings(BaseModel):
    """Frozen settings, validated once: an unknown name, an infinity or a nan is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _none_as_a_word(cls, value: Any, info: ValidationInfo) -> Any:
        """Take None as "none" where that is one of the choices: `--set key=none` means either."""
        choices = get_args(cls.model_fields[str(info.field_name)].annotation)
        return "none" if value is None and "none" in choices else value


class MethodSettings(Settings):
    """The settings of a method; every method has a subclass with its own."""

    name: str

    @property
    def needs_full_history(self) -> bool:
        """Whether the method calls `TrainingSetView.history` or `posterior`: whole predictions of past epochs."""
        return False


def flat_settings(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested settings by dotted name.

    >>> flat_settings({"train": {"epochs": 3, "lr": 0.1}, "model": "auto"})
    {'train.epochs': 3, 'train.lr': 0.1, 'model': 'auto'}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= flat_settings(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return flat
