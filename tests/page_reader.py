"""Pages taken apart by a parser that knows nothing of how they were made."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = ("br", "hr", "link", "meta")
#: What matplotlib draws with.
DRAWING = {
    *("svg", "title", "desc", "g", "defs", "path", "use", "text", "tspan", "clippath"),
    *("rect", "image"),
}


class Reader(HTMLParser):
    """Elements and texts of a page, and whether all elements are closed in order."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.drawn, self.texts, self.stack = [], [], [], []
        self.feed(page)
        self.close()
        assert not self.stack

    def handle_starttag(self, name, attributes):
        assert len(dict(attributes)) == len(attributes)
        (self.drawn if "svg" in self.stack else self.elements).append((name, dict(attributes)))
        if name not in VOID:
            self.stack.append(name)

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        self.stack.pop()

    def handle_endtag(self, name):
        assert self.stack.pop() == name

    def handle_data(self, data):
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.texts.append(data)

    def attributes(self, name):
        return [each[name] for _, each in self.elements + self.drawn if name in each]

    @property
    def skeleton(self):
        """Elements outside of figures, with the names of their attributes."""
        return [(name, tuple(attributes)) for name, attributes in self.elements]
