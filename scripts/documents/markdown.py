"""Links and anchors of Markdown pages, as GitHub and mdBook make them."""

import re
import urllib.parse

# A fenced block of code, an HTML comment, or code within a line.
CODE = re.compile(r"^(```+|~~~+).*?^\1[^\n]*$|<!--.*?-->|(?<!`)(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*(?:\[[^\[\]]*\](?:\([^()]*\))?[^\[\]]*)*)\]\((?P<target>[^()\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
ANCHOR = re.compile(r'<a (?:id|name)="([^"]+)"')
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def blanked(text):
    """The text with spaces in place of its code: every other character stays where it is."""
    return CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def links(text):
    """The targets of all links and images, without those in code."""
    return [found["target"] for found in matches(text)]


def matches(text):
    # A link's text may have code in it, so that links are looked for in the text itself.
    without_code = blanked(text)
    return [found for found in LINK.finditer(text) if without_code[found.end() - 1] == ")"]


def replaced(text, new):
    """The text with `new(match)` in place of each link."""
    parts, end = [], 0
    for found in matches(text):
        parts += [text[end : found.start()], new(found)]
        end = found.end()
    return "".join([*parts, text[end:]])


def anchors(text):
    """The anchors that links can name: one for each heading, and those that stand there as HTML."""
    fences = re.compile(r"^(```+|~~~+).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
    prose = fences.sub("", text)
    seen, found = {}, set(ANCHOR.findall(prose))
    for heading in HEADING.findall(prose):
        shown = LINK.sub(lambda link: link["text"], heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def is_local(target):
    return not OUTSIDE.match(target)


def split(target):
    """The path and the anchor of a local link; either may be empty."""
    path, _, anchor = target.partition("#")
    return urllib.parse.unquote(path), urllib.parse.unquote(anchor)


def broken(root, pages):
    """What is wrong with the local links of these pages, a line each."""
    known = {}

    def anchors_of(path):
        if path not in known:
            known[path] = anchors(path.read_text())
        return known[path]

    problems = []
    for page in pages:
        for target in filter(is_local, links(page.read_text())):
            path, anchor = split(target)
            place = (page.parent / path).resolve() if path else page
            told = f"{page.relative_to(root)}: {target}"
            if not place.is_relative_to(root) or not place.exists():
                problems.append(f"{told}: there is no such file")
            elif anchor and place.suffix == ".md" and anchor not in anchors_of(place):
                problems.append(f"{told}: no heading has this anchor")
    return problems
