"""The door for assistants: tools and resources over the Model Context Protocol."""
