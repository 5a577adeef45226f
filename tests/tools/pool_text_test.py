"""tools/pool_text.py: kinds of files, what is dropped, where documents go, and that it is always the same."""

import gzip
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import pool_text  # noqa: E402

WIKI = " \n = First = \n \n Some text . \n \n = = A section = = \n \n More . \n \n = Second = \n \n Other .\n"


def lines_of(*objects):
    return "".join(json.dumps(one) + "\n" for one in objects)


class PoolTextTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.folder / name
        data = text.encode() if isinstance(text, str) else text
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    def pooled(self, *sets):
        """({name: [text]}, documents without text, repeated ones)"""
        out = self.folder / "out"
        _, *left_out = pool_text.pool([pool_text.parse_set(str(one)) for one in sets], out)
        read = {
            name: [
                json.loads(line)["text"]
                for line in (out / f"{name}.jsonl").read_bytes().splitlines()
            ]
            for name in ("train", "valid")
        }
        return read, *left_out

    def refusal(self, *sets):
        with self.assertRaises(ValueError) as raised:
            self.pooled(*sets)
        return str(raised.exception)

    def test_kinds_of_files_and_fields(self):
        self.write("a.txt", "\ufeffplain\ntext\n")
        self.write("b.jsonl.gz", lines_of({"text": "zipped"}))
        self.write("c.jsonl", lines_of({"prefix": "be", "rest": "gun"}) + "\n")
        found, *_ = self.pooled(
            *(self.folder / one for one in ("c.jsonl:prefix+rest=train", "b.jsonl.gz=train")),
            self.folder / "a.txt=valid",
        )
        self.assertEqual(found, {"train": ["begun", "zipped"], "valid": ["plain\ntext"]})

    def test_rows_of_tables_are_documents(self):
        self.write("a.tsv", '\ufeffid\tone\tother\r\n\n1\tA "b"\tc\r\n2\td\te\n')
        self.write("b.tsv.gz", "gj04\t1\t\tNo header.\n")
        found, *_ = self.pooled(
            f"{self.folder / 'a.tsv'}:one+other=train", f"{self.folder / 'b.tsv.gz'}:4=train"
        )
        self.assertEqual(found["train"], ['A "b"\nc', "d\ne", "No header."])
        path = self.folder / "a.tsv"
        self.assertIn("a.tsv:1: no column text; its columns: id, one", self.refusal(path))
        for column in (0, 4):
            self.assertIn("a.tsv:1: 3 fields; no column", self.refusal(f"{path}:{column}"))
        self.write("a.tsv", "text\tlabel\na\n")
        self.assertIn("a.tsv:2: 1 fields, 2 columns", self.refusal(path))

    def test_articles_of_wikitext_are_documents(self):
        found, empty, _ = self.pooled(f"{self.write('wiki.txt', WIKI)}=train")
        self.assertEqual(
            [text.split("\n")[0] for text in found["train"]], [" = First = ", " = Second = "]
        )
        self.assertIn("= = A section = =", found["train"][0])
        self.assertEqual(empty, 1)  # what is before the first title
        titles = " = No title = \nbut a line of a list\n"
        self.assertEqual(len(list(pool_text.articles("\n" + titles))), 1)

    def test_control_characters_and_empty_documents_are_dropped(self):
        texts = ["a\x00b\tc\nd\r\x85\x7f", " \n\x01", "", "lone \ud800 half", "\u00e9\u2028"]
        path = self.write("a.jsonl", lines_of(*({"text": text} for text in texts)))
        found, empty, _ = self.pooled(f"{path}=train")
        self.assertEqual(found["train"], ["ab\tc\nd", "lone  half", "\u00e9\u2028"])
        self.assertEqual(empty, 2)

    def test_one_in_ten_is_held_out_by_its_text_alone(self):
        texts = [f"document {i}" for i in range(2000)]
        path = self.write("a.jsonl", lines_of(*({"text": text} for text in texts)))
        found, *_ = self.pooled(path)
        self.assertEqual(sorted(found["train"] + found["valid"]), sorted(texts))
        self.assertTrue(150 < len(found["valid"]) < 250, len(found["valid"]))
        back = self.write("b.jsonl", lines_of(*({"text": text} for text in reversed(texts))))
        again, *_ = self.pooled(back)
        self.assertEqual(again["valid"], found["valid"][::-1])

    def test_another_one_in_ten_is_for_choosing_rates(self):
        texts = [f"document {i}" for i in range(2000)]
        path = self.write("a.jsonl", lines_of(*({"text": text} for text in texts)))
        found, *_ = self.pooled(path)
        parts, *_ = pool_text.pool([pool_text.parse_set(str(path))], self.folder / "out", tune=True)
        with_tune = {
            name: [json.loads(line)["text"] for line in part.path.read_text().splitlines()]
            for name, part in parts.items()
        }
        # What is reported stays the same; what rates are chosen on is taken from what is trained on.
        self.assertEqual(with_tune["valid"], found["valid"])
        self.assertTrue(150 < len(with_tune["tune"]) < 250, len(with_tune["tune"]))
        self.assertEqual(sorted(with_tune["train"] + with_tune["tune"]), sorted(found["train"]))

    def test_nothing_held_out_is_trained_on(self):
        one = self.write("a.jsonl", lines_of({"text": "same"}, {"text": "only here"}))
        other = self.write("b.jsonl", lines_of({"text": "same\r\n"}, {"text": "there"}))
        found, _, repeated = self.pooled(f"{one}=train", f"{other}=valid")
        self.assertEqual(found, {"train": ["same", "only here"], "valid": ["there"]})
        self.assertEqual(repeated, 1)

    def test_what_is_wrong_is_named(self):
        path = self.write("a.jsonl", lines_of({"text": "x"}, {"title": "y"}))
        self.assertIn("a.jsonl:2: no text under text; its fields: title", self.refusal(path))
        self.assertIn("no text under body", self.refusal(f"{path}:text+body"))
        self.assertIn("a.jsonl:1: no JSON", self.refusal(self.write("a.jsonl", "{\n")))
        self.assertIn("no file", self.refusal(self.folder / "b.txt"))
        self.assertIn("has text; nothing is written", self.refusal(self.write("c.txt", "\n\n")))
        self.assertIn("none of .txt, .tokens, .jsonl, .tsv", self.refusal(self.write("a.csv", "x")))
        self.assertIn("no field text", self.refusal(f"{self.write('a.txt', 'x')}:text"))
        self.assertIn("a.txt: 'utf-8'", self.refusal(self.write("a.txt", b"\xff")))
        half = gzip.compress(b"whole")[:-4]
        (self.folder / "a.txt.gz").write_bytes(half)
        self.assertIn("a.txt.gz: ", self.refusal(self.folder / "a.txt.gz"))
        # Half a file is not taken for a whole one.
        self.assertEqual(list((self.folder / "out").iterdir()), [])

    def test_what_is_read_is_not_written(self):
        (self.folder / "out").mkdir()
        path = self.folder / "out" / "train.jsonl"
        path.write_text(lines_of({"text": "x"}))
        self.assertIn("which is read; name another folder", self.refusal(path))
        self.assertEqual(path.read_text(), lines_of({"text": "x"}))

    def test_prints_what_the_files_hold(self):
        path = self.write("a.jsonl", lines_of({"text": "one two"}, {"text": "three"}))
        out = self.folder / "new" / "out"
        done = subprocess.run(
            [ROOT / "tools" / "pool_text.py", "--out", out, f"{path}=train"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        data = (out / "train.jsonl").read_bytes()
        self.assertIn(
            f"train.jsonl: 2 documents, {len(data)} bytes, 3 words, sha256 "
            f"{hashlib.sha256(data).hexdigest()}\n",
            done.stdout,
        )
        self.assertIn("valid.jsonl: 0 documents, 0 bytes", done.stdout)
        self.assertIn("may be less than 300,000 tokens", done.stderr)
        done = subprocess.run(
            [ROOT / "tools" / "pool_text.py", "--out", out, self.folder / "b.txt"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("b.txt is no file", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
