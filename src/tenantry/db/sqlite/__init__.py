"""SQLite: connections, their threads, and files."""
