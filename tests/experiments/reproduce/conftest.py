"""Runs to be stored."""

from tests.helpers.stored_runs import made

__all__ = ["made"]
