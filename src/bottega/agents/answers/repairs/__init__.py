"""Rewrites of an answer that are certain to be right."""
