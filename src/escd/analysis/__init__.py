"""Measurements of a pair of tokenizers that need no model: pure functions of vocabularies, tables and text."""
