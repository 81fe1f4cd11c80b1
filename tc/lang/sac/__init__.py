"""The SaC notation: text to the checked form that the TC notation also ends in."""
