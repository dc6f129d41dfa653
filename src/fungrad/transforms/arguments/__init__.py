"""How the verbs read a user's arguments: binding, differentiated leaves, static ones."""
