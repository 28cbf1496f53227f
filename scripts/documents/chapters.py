"""The preprocessor of the book: pages outside of docs/ become chapters, and links lead to them.

mdBook gives a preprocessor the book as JSON and takes back what it prints. SUMMARY.md names pages outside of docs/ by their relative paths, so
that its links work on GitHub, too.
"""

import json
import os
import posixpath
import sys

from . import markdown

SOURCES = "docs"


def of_repository(path):
    """A chapter's path, which is relative to docs/, as one from the top of the repository."""
    return posixpath.normpath(posixpath.join(SOURCES, path))


def of_book(path):
    """Where the book has a page of the repository. mdBook makes `index.html` of README.md."""
    folder, name = posixpath.split(path.removeprefix(f"{SOURCES}/"))
    return posixpath.join(folder, "index.md" if name == "README.md" else name)


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def linked(text, page, pages):
    """The text of a page with its links as the book needs them."""

    def new(found):
        path, anchor = markdown.split(found["target"])
        if not markdown.is_local(found["target"]) or not path:
            return found.group()
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if place not in pages and not place.startswith(f"{SOURCES}/"):
            return found["text"]
        target = os.path.relpath(of_book(place), posixpath.dirname(of_book(page)) or ".")
        return f"{found['image']}[{found['text']}]({target}{'#' if anchor else ''}{anchor})"

    return markdown.replaced(text, new)


def process(book):
    """The book with the paths and links of all chapters changed, in place."""
    all_chapters = [chapter for chapter in chapters(book["items"]) if chapter["path"]]
    pages = {of_repository(chapter["path"]) for chapter in all_chapters}
    for chapter in all_chapters:
        page = of_repository(chapter["path"])
        chapter["content"] = linked(chapter["content"], page, pages)
        chapter["path"] = of_book(page)
    return book


def preprocess():
    """Answers mdBook as a preprocessor does."""
    _, book = json.load(sys.stdin)
    json.dump(process(book), sys.stdout)
