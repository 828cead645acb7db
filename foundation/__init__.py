"""What every floor stands on: errors that carry a remedy, time behind a port, files that are whole or absent, crash points.

Knows nothing of git, evaluation or Kubernetes, and imports no third party.
"""
