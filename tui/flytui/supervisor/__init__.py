"""The process that starts kernel and console, and starts either again if it dies. Standard library only."""
