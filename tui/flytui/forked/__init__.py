"""How a command starts fast: the installed program is a stub, whose work is done by a process that was forked
from one which has imported the command line."""
