"""Sampling a model on problems (`sampling`, needs transformers) and scoring what it says (`scores`, numpy only)."""
