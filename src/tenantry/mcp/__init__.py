"""The interface for assistants: tools and resources over the Model Context Protocol."""
