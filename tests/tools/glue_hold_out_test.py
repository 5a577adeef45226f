"""tools/glue_hold_out.py: nothing held out is trained on, by sentence and by question; every row has its side."""

import pathlib
import random
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import glue_hold_out as tool  # noqa: E402


def phrases(sentences, rng):
    """Every sentence and some of its runs of words."""
    found = []
    for sentence in sentences:
        words = sentence.split()
        found.append(sentence)
        for _ in range(4):
            begin = rng.randrange(len(words))
            found.append(" ".join(words[begin : rng.randrange(begin, len(words)) + 1]))
    rng.shuffle(found)
    return found


class PhrasesTest(unittest.TestCase):
    def setUp(self):
        rng = random.Random(1)
        words = [f"w{i}" for i in range(60)]
        self.sentences = [" ".join(rng.choices(words, k=rng.randint(6, 12))) for _ in range(200)]
        self.phrases = phrases(self.sentences, rng)
        self.sides = tool.sides_of_phrases(self.phrases)

    def of(self, side):
        return {text for text, of in zip(self.phrases, self.sides) if of is side}

    def test_held_out_are_whole_sentences_that_no_training_row_is_part_of(self):
        held_out, trained = self.of(True), self.of(False)
        self.assertLessEqual(held_out, set(self.sentences))
        self.assertTrue(10 <= len(held_out) <= 35, len(held_out))
        sentences = [text for text in self.sentences if text not in held_out]
        for text in trained:  # a phrase of a held-out sentence may train if another one has it too
            self.assertTrue(any(f" {text} " in f" {other} " for other in sentences), text)

    def test_what_is_left_out_is_of_held_out_sentences_alone(self):
        held_out, left = self.of(True), self.of(None)
        self.assertTrue(left)
        others = [text for text in self.sentences if text not in held_out]
        for text in left:
            self.assertTrue(any(f" {text} " in f" {other} " for other in held_out), text)
            self.assertFalse(any(f" {text} " in f" {other} " for other in others), text)

    def test_order_and_spaces_do_not_matter(self):
        by_text = dict(zip(self.phrases, self.sides))
        again = [text + " " for text in reversed(self.phrases)]
        self.assertEqual(tool.sides_of_phrases(again), [by_text[text.rstrip()] for text in again])


class PairsTest(unittest.TestCase):
    def test_no_text_is_on_both_sides(self):
        rng = random.Random(2)
        pairs = [(f"q{rng.randrange(900)}", f"q{rng.randrange(900)}") for _ in range(300)]
        sides = tool.sides_of_pairs(pairs)
        text = [
            {t for pair, of in zip(pairs, sides) if of == side for t in pair} for side in (0, 1)
        ]
        self.assertFalse(text[0] & text[1])
        self.assertTrue(0.02 < sum(sides) / len(sides) < 0.3, sum(sides))
        by_pair = dict(zip(pairs, sides))
        shuffled = rng.sample(pairs, len(pairs))
        self.assertEqual(tool.sides_of_pairs(shuffled), [by_pair[pair] for pair in shuffled])


class FilesTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, text):
        path = self.folder / "all.tsv"
        path.write_bytes(text.encode())
        return path

    def test_rows_stay_as_they_are_under_the_same_header(self):
        header = "id\tquestion1\tquestion2\tis_duplicate"
        rows = [f'{i}\tWhat is "{i}"?\tWhy {i} ?\t{i % 2}' for i in range(100)]
        path = self.write("\r\n".join([header, *rows]) + "\r\n")
        trained, held_out, left = tool.hold_out(path, self.folder / "out")
        self.assertEqual((trained + held_out, left), (100, 0))
        files = [
            (self.folder / "out" / f"{name}.tsv").read_text().split("\n")
            for name in ("train", "held_out")
        ]
        self.assertEqual([file[0] for file in files], [header, header])
        self.assertEqual(sorted(files[0][1:-1] + files[1][1:-1]), sorted(rows))
        self.assertEqual(len(files[1]) - 2, held_out)

    def test_who_reads_meanwhile_reads_all_of_a_file(self):
        rows = [f"sentence {i}\t{i % 2}\n" for i in range(100)]
        out = self.folder / "out"
        tool.hold_out(self.write("sentence\tlabel\n" + "".join(rows)), out)
        whole = (out / "train.tsv").read_text()
        with open(out / "train.tsv", encoding="utf-8") as reading:
            tool.hold_out(self.write("sentence\tlabel\n" + "".join(rows[:50])), out)
            self.assertEqual(reading.read(), whole)
        self.assertEqual({f.name for f in out.iterdir()}, {"train.tsv", "held_out.tsv"})

    def test_what_cannot_be_divided_is_refused(self):
        for text, why in (
            ("", "is empty"),
            ("index\ttext\n0\ta\n", "no columns"),
            ("sentence\tlabel\n\na\n", "all.tsv:3: 1 fields, 2 columns"),
            ("sentence\tlabel\n", "too few rows"),
            ("sentence\tlabel\na\t1\n", "too few rows"),
        ):
            with self.assertRaises(ValueError, msg=text) as caught:
                tool.hold_out(self.write(text), self.folder / "out")
            self.assertIn(why, str(caught.exception))

    def test_what_is_read_is_not_written(self):
        path = self.folder / "train.tsv"
        path.write_text("sentence\tlabel\na\t1\n", encoding="utf-8")
        with self.assertRaisesRegex(ValueError, "holds the file that is read, train.tsv"):
            tool.hold_out(path, self.folder)
        self.assertEqual(path.read_text(encoding="utf-8"), "sentence\tlabel\na\t1\n")


if __name__ == "__main__":
    unittest.main()
