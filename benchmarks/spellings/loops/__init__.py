"""How others spell the programs that go step by step."""
