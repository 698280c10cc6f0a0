"""The base classes of all settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen settings, validated once: an unknown name, an infinity or a nan is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


class MethodSettings(Settings):
    """The settings of a method; every method has a subclass with its own."""

    name: str
