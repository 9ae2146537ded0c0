"""Doing what a reason's remedy says: seen first, then done."""
