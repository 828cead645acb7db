"""The cluster store: Kubernetes objects behind one port, and the adapters that keep them.

Knows what Kubernetes promises about any object (versions, ownership, deletion, watches); must not know what a particular kind means: rules
of kinds come in as hooks.
"""
