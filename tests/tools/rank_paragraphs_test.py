"""tools/rank_paragraphs.py: what paragraphs and recalls are, both orders, what stays as it was, and refusals."""

import gzip
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import rank_paragraphs as tool  # noqa: E402

ARTICLE = {
    "id": 7,
    "title": "Parsing with neural nets",
    "article": "Introduction\nWe eat apples.\n\nModel\nA neural parser parses.\n \t\nNets\nParsing with nets.",
    "abstract": "A neural parser parses text.",
}


class WithFiles(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, *articles):
        path = self.folder / name
        data = "".join(json.dumps(one) + "\n" for one in articles).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    def rank(self, path, *flags, out="out.jsonl"):
        """([object], what is said)"""
        out = self.folder / out
        said = tool.rank(tool.parse([str(path), "--out", str(out), *map(str, flags)]))
        data = out.read_bytes()
        text = (gzip.decompress(data) if out.suffix == ".gz" else data).decode()
        return [json.loads(line) for line in text.splitlines()], said

    def refusal(self, path, *flags, out="out.jsonl"):
        with self.assertRaises(ValueError) as raised:
            self.rank(path, *flags, out=out)
        self.assertFalse((self.folder / "out.jsonl").exists())
        return str(raised.exception)


class PartsTest(unittest.TestCase):
    def test_paragraphs_are_the_tasks(self):
        self.assertEqual(
            tool.paragraphs_of("A head\nits text\n\nanother"), ["A head\nits text", "another"]
        )
        self.assertEqual(tool.paragraphs_of("\n\n a \n \t\r\n\n\nb\r\nc\n"), [" a ", "b\r\nc"])
        self.assertEqual(tool.paragraphs_of(" \n\n"), [])

    def test_recall_counts_pairs_as_often_as_both_have_them(self):
        self.assertEqual(tool.recall("the cat sat", "The cat sat."), 1)
        self.assertEqual(tool.recall("a b a b a b", "a b c a b"), 0.5)
        self.assertEqual(tool.recall("b a", "a b"), 0)
        self.assertEqual(tool.recall("anything", "word"), 0)

    def test_words_of_the_title_count_by_their_rarity(self):
        articles = [{"article": "common rare\n\ncommon one\n\ncommon two"}]
        rarity = tool.Rarity(articles)

        def cosine(words):
            return tool.cosine(rarity.vector(words), rarity.vector(["common", "rare"]))

        self.assertAlmostEqual(cosine(["rare", "common"]), 1)
        self.assertGreater(cosine(["rare"]), cosine(["common"]))
        self.assertEqual(cosine(["other"]), 0)
        self.assertEqual(cosine([]), 0)


class TitleTest(WithFiles):
    def test_the_nearest_to_the_title_is_first(self):
        (article,), said = self.rank(self.write("a.jsonl.gz", ARTICLE), "--by", "title")
        self.assertEqual(
            article["article"],
            "Nets\nParsing with nets.\n\nModel\nA neural parser parses.\n\nIntroduction\nWe eat apples.",
        )
        for key in ("id", "title", "abstract"):
            self.assertEqual(article[key], ARTICLE[key])
        self.assertIn("1 articles, 3 of 3 paragraphs", said)
        # Three of the abstract's four pairs are in a paragraph that is neither's first.
        self.assertIn("in the first 1: 0.0000 as they stood, 0.0000 ranked", said)

    def test_only_the_best_are_kept(self):
        path = self.write("a.jsonl", ARTICLE)
        (article,), said = self.rank(path, "--by", "title", "--best", 2)
        self.assertEqual(len(tool.paragraphs_of(article["article"])), 2)
        self.assertIn("2 of 3 paragraphs", said)
        self.assertIn("in the first 2: 0.7500 as they stood, 0.7500 ranked", said)

    def test_equals_stay_as_they_stood(self):
        path = self.write("a.jsonl", {"title": "x", "article": "b\n\na\n\nc"})
        (article,), said = self.rank(path, "--by", "title")
        self.assertEqual(article["article"], "b\n\na\n\nc")
        self.assertNotIn("abstract", said)

    def test_the_same_articles_make_the_same_file(self):
        path = self.write("a.jsonl", ARTICLE)
        files = []
        for name in ("one.jsonl.gz", "two.jsonl.gz"):
            self.rank(path, "--by", "title", out=name)
            files.append((self.folder / name).read_bytes())
        self.assertEqual(*files)


@unittest.skipIf(tool.numpy is None, "wants NumPy")
class LearnedTest(WithFiles):
    def articles(self, count, first):
        """Of four paragraphs the last says what the abstract says, in other words than the title's."""
        found = []
        for i in range(first, first + count):
            filler = [f"Filler {i} {j} lorem ipsum dolor." for j in range(3)]
            found.append(
                {
                    "title": f"Title {i}",
                    "article": "\n\n".join([*filler, f"Result {i} holds for every case."]),
                    "abstract": f"We show that result {i} holds for every case.",
                }
            )
        return found

    def test_what_the_abstracts_say_is_learnt(self):
        train = self.write("train.jsonl.gz", *self.articles(20, 0))
        test = self.write("test.jsonl", *self.articles(5, 50))
        found, said = self.rank(test, "--by", "learned", "--train", train, "--best", 1)
        for article in found:
            self.assertTrue(article["article"].startswith("Result"), article)
        self.assertIn("0.0000 as they stood", said)
        self.assertIn("is_last +", said)

    def test_abstracts_of_what_is_ranked_change_nothing(self):
        train = self.write("train.jsonl", *self.articles(20, 0))
        articles = self.articles(5, 50)
        orders = []
        for abstract in ("Filler 50 0 lorem ipsum dolor.", None):
            for article in articles:
                article.pop("abstract", None)
                if abstract:
                    article["abstract"] = abstract
            test = self.write("test.jsonl", *articles)
            found, _ = self.rank(test, "--by", "learned", "--train", train)
            orders.append([article["article"] for article in found])
        self.assertEqual(*orders)

    def test_weights_are_ridge_regressions(self):
        """At the least squares with a penalty the gradient is zero."""
        articles = self.articles(20, 0)
        learned = tool.Learned(tool.Rarity(articles), articles)
        known = tool.numpy.array([row for one in articles for row in learned.features(one)])
        known = (known - learned.mean) / learned.spread
        wanted = [
            tool.recall(part, one["abstract"])
            for one in articles
            for part in tool.paragraphs_of(one["article"])
        ]
        missed = known @ learned.weights + learned.expected - wanted
        gradient = known.T @ missed + tool.RIDGE * learned.weights
        self.assertLess(abs(gradient).max(), 1e-9)
        self.assertLess(abs(missed.sum()), 1e-9)


class RefusalsTest(WithFiles):
    def test_what_is_no_article(self):
        for bad, words in (
            ("nonsense", "no JSON object"),
            ('{"title": "x"}', "'article'"),
            ('{"article": "x", "title": " "}', "'title'"),
            ("", "no articles"),
        ):
            path = self.folder / "bad.jsonl"
            path.write_text(bad + "\n")
            message = self.refusal(path, "--by", "title")
            self.assertIn(words, message)
            self.assertIn("bad.jsonl", message)

    def test_flags_that_do_not_go_together(self):
        path = self.write("a.jsonl", ARTICLE)
        self.assertIn("--train", self.refusal(path, "--by", "learned"))
        self.assertIn("--best 0", self.refusal(path, "--by", "title", "--best", 0))
        self.assertIn("name another", self.refusal(path, "--by", "title", out="a.jsonl"))
        lacking = self.write("train.jsonl", {"title": "x", "article": "y"})
        if tool.numpy is not None:
            message = self.refusal(path, "--by", "learned", "--train", lacking)
            self.assertIn("train.jsonl:1: no text under 'abstract'", message)


if __name__ == "__main__":
    unittest.main()
