"""The one reader of GLUE's files: a row a line, tabs between fields, quotation marks are characters."""


def lines_of(path):
    """[(line, its fields)], the first line's columns first; ValueError names the file, and the line that is broken.

    Empty lines are none. What is no UTF-8 comes back as it was when it is written with `surrogateescape`.
    """
    text = path.read_bytes().decode("utf-8-sig", errors="surrogateescape")
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line:
            continue
        fields = line.split("\t")
        columns = len(found[0][1] if found else fields)
        if len(fields) != columns:
            raise ValueError(
                f"{path}:{number}: {len(fields)} fields, {columns} columns; mend the line"
            )
        found.append((line, fields))
    if not found:
        raise ValueError(f"{path} is empty; give one of GLUE's own files")
    return found
