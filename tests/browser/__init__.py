"""What only a browser can tell. A package, so that files here may bear the names of files one folder up."""
