"""report.html: the report as one page that asks no network, of the same blocks as report.md.

The values behind the cells lie in it as JSON; page.js shows, hides and saves them.
"""

import functools
import html
import itertools
import json
import pathlib
import re

import markdown

from document import Figure, Line, Note
from values import Value, rounded

HERE = pathlib.Path(__file__).resolve().parent
MARK = re.compile(r"\[(\d+)\]")
INTERVAL = re.compile(r"\[[^\[\]]*(?:, |–)[^\[\]]*\]")
FIELDS = ("value", "low", "high", "status", "state", "sittings", "commit", "whose", "commands")
DIGITS = re.compile(r"(\.\d\d)\d+")
LONG = 40  # letters of a cell that needs a wide column


def render(report):
    """The whole page, as text."""
    return _Page(report.records.folder).render(report.chapters)


class _Page:
    def __init__(self, folder):
        self.folder = folder
        self.values, self.commands = {}, {}  # each to its index in the page's data
        self.blocks = 0
        self.prose = markdown.Markdown()
        # Records may say anything: what looks like HTML in them is text.
        self.prose.preprocessors.deregister("html_block")
        self.prose.inlinePatterns.deregister("html")

    def render(self, chapters):
        bodies = [self._chapter(number, blocks) for number, blocks in enumerate(chapters)]
        titles = [blocks[0][0].split("\n")[0].lstrip("# ") for blocks in chapters]
        contents = "".join(
            f'<li><a href="#chapter-{number}">{self._inline(title)}</a></li>'
            for number, title in enumerate(titles)
            if number
        )
        data = json.dumps(
            {"fields": FIELDS, "values": list(self.values), "commands": list(self.commands)}
        ).replace("</", r"<\/")  # which would end the element
        return "\n".join(
            [
                "<!DOCTYPE html>",
                '<html lang="en">',
                '<head><meta charset="utf-8">',
                # Inline styles and script, and nothing that would have to be fetched.
                '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
                "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">",
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{html.escape(titles[0])}</title>",
                f"<style>\n{_beside('page.css')}</style></head>",
                "<body>",
                f'<nav><details open><summary>Contents</summary><ol role="list">{contents}</ol></details></nav>',
                f"<main>{''.join(bodies)}</main>",
                '<div id="about" role="tooltip" hidden></div>',
                f'<script type="application/json" id="data">{data}</script>',
                f"<script>\n{_beside('page.js')}</script>",
                "</body>",
                "</html>",
                "",
            ]
        )

    def _chapter(self, number, blocks):
        body = "\n".join(self._block(lines) for lines in blocks)
        return f'<section id="chapter-{number}">\n{body}\n</section>\n'

    def _block(self, lines):
        self.blocks += 1
        parts = [
            self._part(kind, list(group)) for kind, group in itertools.groupby(lines, key=_kind)
        ]
        return "\n".join(parts)

    def _part(self, kind, lines):
        if kind is Line:
            return self._table(*lines)
        if kind is Note:
            items = (f'<li id="{self._note(n.number)}">{self._inline(n.text)}</li>' for n in lines)
            return f'<ol class="notes">{"".join(items)}</ol>'
        if kind is Figure:
            return "".join(_figure(self.folder / "figures", figure.name) for figure in lines)
        return self._marked(self.prose.reset().convert("\n".join(lines)))

    def _table(self, head, rule, *rows):
        def cells(row, tag):
            return "".join(
                self._cell(cell, "th" if first else tag, is_number)
                for first, cell, is_number in zip(
                    [True, *[False] * len(row.cells)], row.cells, rule.are_numbers
                )
            )

        top = f"<thead><tr>{cells(head, 'th')}</tr></thead>\n" if any(head.cells) else ""
        body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
        return f'<div class="table"><div class="wide"><table>\n{top}<tbody>\n{body}\n</tbody></table></div></div>'

    def _cell(self, cell, tag, is_number):
        value = getattr(cell, "shows", None)
        at = f' data-value="{self._index(value)}"' if isinstance(value, Value) else ""
        look = ' class="number"' if is_number else ' class="long"' if len(cell) > LONG else ""
        text = INTERVAL.sub(r'<span class="interval">\g<0></span>', self._inline(cell))
        return f"<{tag}{look}{at}>{self._marked(text)}</{tag}>"

    def _index(self, value):
        """Where the page's data have this Value."""
        commands = tuple(self.commands.setdefault(c, len(self.commands)) for c in value.commands)
        numbers = (rounded(n) for n in (value.value, value.low, value.high))
        packed = (
            *numbers,
            value.status,
            value.state,
            value.sittings,
            value.commit,
            value.whose,
            commands,
        )
        return self.values.setdefault(packed, len(self.values))

    def _marked(self, text):
        """With marks of notes as links to them."""
        return MARK.sub(
            lambda mark: f'<sup><a href="#{self._note(mark[1])}">{mark[1]}</a></sup>', text
        )

    def _note(self, number):
        return f"note-{self.blocks}-{number}"

    @functools.cache  # noqa: B019  (as long-lived as the program)
    def _inline(self, text):
        """Markdown without blocks."""
        if "`" not in text and "*" not in text:
            return html.escape(text, quote=False)
        return self.prose.reset().convert(text).removeprefix("<p>").removesuffix("</p>")


def _kind(line):
    return next((kind for kind in (Line, Note, Figure) if isinstance(line, kind)), str)


def _beside(name):
    return (HERE / name).read_text(encoding="utf-8")


def _figure(folder, name):
    """A figure's SVG as an element, with names of its own; coordinates to a hundredth of a point."""
    text = (folder / f"{name}.svg").read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r'\b(?:d|x|y)="[^"]*"', lambda found: DIGITS.sub(r"\1", found[0]), text)
    text = re.sub(r"\s+", " ", text)
    # Its width in points is the page's to choose.
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text)
    text = text.replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    return f'<figure class="drawing">{text}<figcaption>{name}</figcaption></figure>'
