"""What must hold whatever happens: processes killed, callers gone, databases broken."""
