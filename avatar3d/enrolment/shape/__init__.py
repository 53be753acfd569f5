"""The head's shape beyond what landmarks tell: cranium, ears, the skin's outline, and how far each expression goes on this person."""
