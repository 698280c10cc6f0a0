"""What all settings have in common: frozen, and nothing unknown in them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Validated once, never changed; an unknown name, an infinity or a nan is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


class MethodSettings(Settings):
    """The settings of a method; each adds its own beside the name."""

    name: str
