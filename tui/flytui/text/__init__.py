"""Lines, cards, labels and filters as values. Command line and console both use them; nothing imports
Textual."""
