"""Agents behind a connection: how one is asked as a provider, and how a bundle is served as one (docs/agents.md)."""
