"""What commands print: results, reports, and progress."""
