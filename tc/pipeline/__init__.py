"""From source to program: the list of passes that every backend begins with, and what runs such lists."""
