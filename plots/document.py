"""Lines of Markdown that know what they show: of the same lines report.md and report.html are made."""


class Cell(str):
    """The text of a cell that also knows the Value or plain number it shows; what is added is text."""

    def __new__(cls, text, shows=None):
        made = super().__new__(cls, text)
        made.shows = shows
        return made

    def __add__(self, text):
        return Cell(str(self) + text, self.shows)


class Line(str):
    """A line of a table that also knows its cells."""

    def __new__(cls, cells):
        made = super().__new__(cls, "| " + " | ".join(cells) + " |")
        made.cells = cells
        return made


class Rule(Line):
    """The line below the names of a table's columns: which of them are of numbers, to the right."""

    def __new__(cls, are_numbers):
        made = str.__new__(cls, "".join("|---:" if n else "|---" for n in are_numbers) + "|")
        made.are_numbers = are_numbers
        return made


class Note(str):
    """What a mark "[number]" in the same block refers to."""

    def __new__(cls, number, text):
        made = super().__new__(cls, f"{number}. {text}")
        made.number, made.text = number, text
        return made


class Figure(str):
    """A picture in figures/ beside the report, as SVG and PNG."""

    def __new__(cls, name):
        made = super().__new__(cls, f"[![{name}](figures/{name}.png)](figures/{name}.svg)")
        made.name = name
        return made
