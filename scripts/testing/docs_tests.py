"""Tests of the documents: links, anchors, lengths, and what makes chapters of them."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from documents import built, chapters, markdown
from triton.install import ROOT

from . import gallery

DOCS = ROOT / "docs"
LINES_MAX = 300
# scripts/detection writes it: a row for each fault.
GENERATED = {"DETECTION.md"}


def pages():
    """Every Markdown page of the repository, without ignored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\n") if name and (ROOT / name).exists()]


class Documents(unittest.TestCase):
    def test_no_link_is_broken(self):
        self.assertGreater(len(pages()), 20)
        self.assertEqual(markdown.broken(ROOT, pages()), [])

    def test_no_page_is_long(self):
        lengths = {path.name: len(path.read_text().splitlines()) for path in DOCS.rglob("*.md")}
        long = {name: lines for name, lines in lengths.items() if lines > LINES_MAX and name not in GENERATED}
        self.assertEqual(long, {}, f"a page has at most {LINES_MAX} lines: divide it")

    def test_the_summary_has_every_page(self):
        summary = (DOCS / "SUMMARY.md").read_text()
        listed = {(DOCS / target).resolve() for target in markdown.links(summary)}
        self.assertEqual(set(DOCS.glob("*.md")) - listed, {DOCS / "SUMMARY.md"})


class Gallery(unittest.TestCase):
    def test_it_has_each_picture_with_the_command_that_it_comes_from(self):
        text = (DOCS / "GALLERY.md").read_text()
        shown = [target.removeprefix("gallery/") for target in markdown.links(text) if target.startswith("gallery/")]
        self.assertEqual((sorted(shown), {path.name for path in gallery.FOLDER.iterdir()}), (sorted(gallery.files()), gallery.files()))
        for report in gallery.REPORTS:
            self.assertIn(f"```sh\n{report.command()}\n```", text)


class Links(unittest.TestCase):
    def test_links_are_found_outside_of_code(self):
        text = "[a](b.md) `[c](d.md)` [`e`](f.md#g)\n```\n[h](i.md)\n```\n![j](k.svg) <!-- [l](m.md) -->"
        self.assertEqual(markdown.links(text), ["b.md", "f.md#g", "k.svg"])

    def test_anchors_are_those_of_github(self):
        text = '# A `b-c`, [d](e.md)\n## Twice\n## Twice\n```sh\n# no heading\n```\n<a id="here"></a>'
        self.assertEqual(markdown.anchors(text), {"a-b-c-d", "twice", "twice-1", "here"})

    def test_broken_links_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "a.md").write_text("# Here\n[1](b.md) [2](#here) [3](c.md) [4](b.md#no) [5](../x.md) [6](https://h/x)")
            (root / "b.md").write_text("# There\n")
            told = markdown.broken(root, [root / "a.md"])
        self.assertEqual([line.split(": ")[1] for line in told], ["c.md", "b.md#no", "../x.md"])

    def test_broken_links_of_a_built_book_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "a.html").write_text('<a href="b.html#x">1</a><a href="b.html#y">2</a><a href="c.html">3</a><a href="https://h">4</a>')
            (root / "b.html").write_text('<h1 id="x">X</h1><img src="../no.svg">')
            told = built.broken(root)
        self.assertEqual([line.split(": ")[1] for line in told], ["b.html#y", "c.html", "../no.svg"])

    def test_chapters_outside_of_the_sources_have_a_place_in_the_book(self):
        def chapter(path, content):
            return {"Chapter": {"path": path, "content": content, "sub_items": []}}

        book = {"items": [chapter("../README.md", "[a](docs/A.md#b) [s](scenarios/)"), "Separator", chapter("A.md", "[r](../README.md) [f](failures/x.toml)")]}
        first, _, second = chapters.process(book)["items"]
        self.assertEqual((first["Chapter"]["path"], first["Chapter"]["content"]), ("index.md", "[a](A.md#b) s"))
        self.assertEqual(second["Chapter"]["content"], "[r](index.md) [f](failures/x.toml)")


if __name__ == "__main__":
    unittest.main()
