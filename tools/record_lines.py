"""Lines of a file of records: what a kill cut short is told from the rest, and new ones come onto the disk whole."""

import contextlib
import fcntl
import os
import sys

BEGINNING = b'{"experiment":'  # of every record


def whole_lines(text, beginning=BEGINNING):
    """([line without its end], the beginning of a record behind them, or b"").

    What has no end and does not begin as a record does is a line, for the reader to refuse.
    """
    *lines, rest = text.split(b"\n")
    if beginning.startswith(rest[: len(beginning)]):
        return lines, rest
    return [*lines, rest], b""


def say_cut(path, what):
    print(
        f"{path}: its last record has no end, as if a write had been cut short; {what}",
        file=sys.stderr,
    )


@contextlib.contextmanager
def locked(path):
    """The file, for nobody else to append to or mend meanwhile: every program takes this lock."""
    with open(path, "a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def append(file, end, data):
    """Onto the disk, all or nothing: part of a line would make the whole file unreadable.

    file: a locked() one of `end` bytes.
    """
    try:
        while data:
            data = data[file.write(data) :]
        os.fsync(file)
    except OSError as error:
        file.truncate(end)
        raise SystemExit(
            f"records cannot be added to {file.name} ({error.strerror}); free space or choose another "
            "folder"
        ) from error
