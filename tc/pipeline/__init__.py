"""From source to program: the passes that every backend begins with, and the manager that runs lists of
passes."""
