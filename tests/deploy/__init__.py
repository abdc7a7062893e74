"""The files of deploy, checked by the programs that read them, and run where they can be."""
