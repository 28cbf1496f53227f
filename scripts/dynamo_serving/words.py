"""The words of the command line that the worker and the front end share with it; nothing of Dynamo is imported here."""

# The names of the faults that can be planted in a worker, and what it then does wrong.
FAULTS = {"forget": "every 20th step that goes on meets no state", "add-one": "every 20th step adds one too much"}
ROUND_ROBIN, BY_SEQUENCE = "round-robin", "by-sequence"
ROUTINGS = (ROUND_ROBIN, BY_SEQUENCE)
