"""The documents: links of Markdown pages, and the book that mdBook makes of them."""
