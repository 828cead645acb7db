"""Vendors' protocols, one module each: a request as their JSON, and replies out of it. Pure."""
