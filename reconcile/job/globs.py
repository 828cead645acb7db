"""Globs over paths and branch names, as `foundation.globs` reads them."""

from foundation.globs import matches_any

__all__ = ["matches_any"]
