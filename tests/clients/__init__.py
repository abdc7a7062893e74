"""The generated clients, as an application uses them."""
