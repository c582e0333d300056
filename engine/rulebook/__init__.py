"""What the original does, as tables of rules: each is a value with one plain sentence, a pattern and a decision."""
