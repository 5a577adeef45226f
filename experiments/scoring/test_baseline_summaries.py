"""Baselines of summaries: which sentences they take, by plain definitions."""

import contextlib
import io
import itertools
import json
import random
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import baseline_summaries as baselines  # noqa: E402


def f1(text, reference, n):
    """ROUGE-n F1 of a list of sentences; n-grams within them."""
    selected = sum((baselines.grams(baselines.words(s), n) for s in text), baselines.Counter())
    wanted = baselines.grams(baselines.words(reference), n)
    common = sum((selected & wanted).values())
    return 2 * common / (sum(selected.values()) + sum(wanted.values())) if common else 0


def both(text, reference):
    return f1(text, reference, 1) + f1(text, reference, 2)


def random_sentence(draws):
    return " ".join(draws.choices("abcdefg", k=draws.randint(1, 5))) + "."


class Choices(unittest.TestCase):
    article = ["A cat sat.", "It rained.", "The dog ran far.", "One."]

    def test_lead_takes_the_first_and_random_any_in_their_order(self):
        self.assertEqual(baselines.lead(self.article, 2), self.article[:2])
        self.assertEqual(baselines.lead([], 2), [])
        seen = set()
        for place in range(200):
            chosen = baselines.any_of(self.article, 2, 1, place)
            self.assertEqual(chosen, baselines.any_of(self.article, 2, 1, place))
            self.assertEqual(chosen, sorted(chosen, key=self.article.index))
            seen.add(tuple(chosen))
        self.assertEqual(seen, set(itertools.combinations(self.article, 2)))
        self.assertEqual(baselines.any_of(self.article, 9, 1, 0), self.article)
        other = [baselines.any_of(self.article, 2, 2, place) for place in range(20)]
        self.assertNotEqual(other, [baselines.any_of(self.article, 2, 1, p) for p in range(20)])

    def test_headings_are_no_sentences(self):
        text = ["BACKGROUND", "A cat sat.", "1 Introduction", 'It "rained."', "Why?)"]
        self.assertEqual(baselines.without_headings(text), [text[1], *text[3:]])
        self.assertEqual(baselines.without_headings(["no end", "nor here"]), ["no end", "nor here"])

    def test_words_are_letters_and_digits_in_lower_case(self):
        self.assertEqual(
            baselines.words("It's 3.5 <dig> -- ÄB\n"), ["it", "s", "3", "5", "dig", "b"]
        )
        self.assertEqual(baselines.words("?!"), [])

    def test_oracle_adds_the_best_sentence_each_time(self):
        draws = random.Random(1)
        lengths = set()
        for _ in range(150):
            article = [random_sentence(draws) for _ in range(draws.randint(1, 8))]
            reference = " ".join(random_sentence(draws) for _ in range(2))
            most = draws.randint(1, 4)
            chosen, best = [], 0
            while len(chosen) < most:
                left = [i for i in range(len(article)) if i not in chosen]
                scored = [both([article[j] for j in [*chosen, i]], reference) for i in left]
                if not left or max(scored) <= best:
                    break
                best = max(scored)
                chosen.append(left[scored.index(best)])
            found = baselines.oracle(article, reference, most)
            self.assertAlmostEqual(both(found, reference), best)
            self.assertEqual(len(found), len(chosen))
            lengths.add(len(found))
        self.assertGreater(len(lengths), 2)

    def test_oracle_stops_where_nothing_helps(self):
        self.assertEqual(baselines.oracle(self.article, "a dog ran far", 3), [self.article[2]])
        self.assertEqual(baselines.oracle(self.article, "nothing here", 3), [])
        self.assertEqual(baselines.oracle([], "a dog", 3), [])
        self.assertEqual(baselines.oracle(self.article, "", 3), [])

    def test_another_moves_every_text(self):
        for count in (2, 3, 10):
            texts = [str(i) for i in range(count)]
            moved = baselines.another(texts, 1)
            self.assertEqual(sorted(moved), sorted(texts))
            self.assertTrue(all(a != b for a, b in zip(moved, texts)))
            self.assertEqual(moved, baselines.another(texts, 1))


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        texts = [
            {"article": "One a. Two b.\n\nThree c.", "abstract": "Two b."},
            {"article": "Only one", "abstract": "only one"},
        ]
        self.articles = self.folder / "a.jsonl"
        self.articles.write_text("".join(json.dumps(text) + "\n" for text in texts))

    def run_program(self, *words):
        out = self.folder / "out.txt"
        with (
            mock.patch.object(sys, "argv", ["program", *words, "--out", str(out)]),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            try:
                baselines.main()
            except SystemExit as end:
                return f"{end}{said.getvalue()}"
        return out.read_text()

    def test_a_line_a_document(self):
        words = ["--articles", str(self.articles), "--key", "article", "--sentences", "2"]
        self.assertEqual(self.run_program("lead", *words), "One a. Two b.\nOnly one\n")
        self.assertEqual(len(self.run_program("random", *words).splitlines()), 2)
        self.assertEqual(
            self.run_program("oracle", *words, "--references_key", "abstract"), "Two b.\nOnly one\n"
        )
        hypotheses = self.folder / "h.txt"
        hypotheses.write_text("1\n\n")
        self.assertEqual(self.run_program("another", "--hypotheses", str(hypotheses)), "\n1\n")

    def test_mistakes_are_sentences(self):
        articles = ["--articles", str(self.articles)]
        lone = self.folder / "lone.txt"
        lone.write_text("1\n")
        empty = self.folder / "empty.txt"
        empty.write_text("")
        for words, part in (
            (["lead", *articles], "lead needs --sentences"),
            (["oracle", *articles, "--sentences", "2"], "oracle needs --references_key"),
            (["another"], "another needs --hypotheses"),
            (["lead", *articles, "--sentences", "0"], "--sentences 0"),
            (["lead", *articles, "--sentences", "1"], "no text under 'text'"),
            (["another", "--hypotheses", str(lone)], "no other document"),
            (["lead", "--articles", str(empty), "--sentences", "1"], "no texts"),
        ):
            self.assertIn(part, self.run_program(*words))
        out = self.folder / "out.txt"
        out.write_text("1\n2\n")
        said = self.run_program("another", "--hypotheses", str(out))
        self.assertIn("out.txt is a file that is read; name another", said)
        self.assertEqual(out.read_text(), "1\n2\n")


if __name__ == "__main__":
    unittest.main()
