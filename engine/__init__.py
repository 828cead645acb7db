"""Evaluation: bundles, plans, conversations, checks, the work queue, the worker and results.

Stands on `foundation` alone. Must not know git or Kubernetes: a caller brings a directory and providers, and gets items and results.
"""
