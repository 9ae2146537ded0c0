"""What a child may see and touch: its environment, its seal, the level it really gets, masked secrets."""
