"""External tools: which versions are pinned, how they are installed, and whether they work."""
