"""The console and the command line, with which a person sees and approves what agents do."""
