"""The embedded cluster of one machine: its state directory, its API, its job runner."""
