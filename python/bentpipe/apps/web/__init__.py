"""Web pages: `har` reads a page from a HAR file, `page` holds its objects."""
