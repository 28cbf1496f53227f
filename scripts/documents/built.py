"""The built book: the links and anchors of its HTML pages."""

import html.parser
import urllib.parse


class Page(html.parser.HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken(folder):
    """What is wrong with the local links of all pages below a folder, a line each."""
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        # mdBook's page for addresses that are not there has paths from the root of a server.
        if path.name == "404.html":
            continue
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            anchor = urllib.parse.unquote(url.fragment)
            told = f"{path.relative_to(folder)}: {link}"
            if not target.is_relative_to(folder) or not target.exists():
                problems.append(f"{told}: there is no such file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                problems.append(f"{told}: no element has this anchor")
    return problems
