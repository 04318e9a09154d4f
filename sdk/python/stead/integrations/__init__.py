"""Adapters for other projects."""
