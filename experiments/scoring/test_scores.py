"""The scorers: what is read and refused, intervals, records; and the packages against plain definitions."""

import contextlib
import gzip
import importlib.util
import io
import json
import math
import random
import sys
import tempfile
import types
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import score_summaries  # noqa: E402
import score_translations  # noqa: E402
import scores  # noqa: E402

HAS_SACREBLEU = importlib.util.find_spec("sacrebleu") is not None
HAS_ROUGE = importlib.util.find_spec("rouge_score") is not None
WHY = "is not installed; experiments/scoring/requirements.txt has it"
OURS = ["the cat sat on a mat in the sun", "a dog ran past the old cat", "it is so warm here now"]
THEIRS = [
    "the cat sat on the mat in the sun",
    "a dog ran by the cat",
    "it is warm here now and then",
]


def grams(text, n):
    words = text.split()
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def bleu(ours, theirs):
    """By definition, of texts that share some of every length: the geometric mean of four precisions."""
    log = 0
    for n in (1, 2, 3, 4):
        common = sum(sum((grams(a, n) & grams(b, n)).values()) for a, b in zip(ours, theirs))
        log += math.log(common / sum(sum(grams(a, n).values()) for a in ours)) / 4
    length, wanted = (sum(len(text.split()) for text in texts) for texts in (ours, theirs))
    return 100 * math.exp(log + min(0, 1 - wanted / length))


def f1(common, ours, theirs):
    return 2 * common / (ours + theirs) if common else 0


def rouge(n, ours, theirs):
    a, b = grams(ours, n), grams(theirs, n)
    return f1(sum((a & b).values()), sum(a.values()), sum(b.values()))


def longest_common(a, b):
    if not a or not b:
        return 0
    if a[0] == b[0]:
        return 1 + longest_common(a[1:], b[1:])
    return max(longest_common(a[1:], b), longest_common(a, b[1:]))


class FakeMetric:
    """Of sacrebleu's interface what is used."""

    def corpus_score(self, ours, references, n_bootstrap):
        self.texts = ours, references, n_bootstrap
        return self

    def get_signature(self):
        return f"bs:{self.texts[2]}|version:fake"

    def format(self, width, signature, is_json):
        assert width > 2 and is_json
        right = sum(a == b for a, b in zip(self.texts[0], self.texts[1][0]))
        said = {"score": 100 * right / len(self.texts[0]), "signature": signature}
        return json.dumps({**said, "confidence_mean": 40.0, "confidence_var": 3.0})


class FakeScorer:
    """Of rouge-score's: all four are the share of the words that are the same place by place."""

    def __init__(self, kinds, use_stemmer):
        self.kinds, self.bonus = kinds, 0.25 * use_stemmer

    def score(self, reference, text):
        same = sum(a == b for a, b in zip(reference.split(), text.split()))
        share = same / len(reference.split()) / 2 + self.bonus
        one = types.SimpleNamespace(fmeasure=share, precision=share / 2, recall=share / 4)
        return dict.fromkeys(self.kinds, one)


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    def refusal(self, act):
        with self.assertRaises(SystemExit) as caught:
            act()
        return str(caught.exception)

    def run_scorer(self, module, *more):
        """([records], what was printed)"""
        command = ["scorer", "--hypotheses", str(self.write("ours.txt", "\n".join(OURS) + "\n"))]
        command += ["--references", str(self.write("theirs.txt", "\n".join(THEIRS) + "\n"))]
        command += ["--results", str(self.folder / "results"), "--row", "r.1", "--draws", "200"]
        with (
            mock.patch.object(sys, "argv", [*command, *more]),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            args = scores.parse(module.__doc__, "e", takes_several=module is score_summaries)
            scores.run(args, "program", module.score)
        lines = (self.folder / "results" / "e.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines], said.getvalue()


class Texts(WithFolder):
    def test_lines_and_objects_compressed_or_not(self):
        lines = self.write("a.txt", "\ufeffone\r\n\n tw\u2028o\x0b\nthree")
        self.assertEqual(scores.read_texts(lines, "x"), ["one", "", " tw\u2028o\x0b", "three"])
        objects = '{"x": "one\\nline", "y": "1"}\n\n{"y": "2", "x": "two"}\n'
        for name in ("a.jsonl", "a.jsonl.gz"):
            path = self.write(name, objects)
            self.assertEqual(scores.read_texts(path, "x"), ["one\nline", "two"])
            self.assertEqual(scores.read_texts(path, "y"), ["1", "2"])
        broken = self.write("b.txt", b"\xff\xfe\n")
        self.assertEqual(scores.read_texts(broken, "x"), ["\ufffd\ufffd"])

    def test_what_is_no_text_is_refused_by_line(self):
        path = self.write("a.jsonl", '{"x": "1"}\n[1]\n')
        self.assertIn(f"{path}:2: no JSON", self.refusal(lambda: scores.read_texts(path, "x")))
        path = self.write("a.jsonl", '{"x": "1"}\n\n{"x": 2}\n')
        self.assertIn(f"{path}:3: no text", self.refusal(lambda: scores.read_texts(path, "x")))
        path = self.write("a.jsonl", "{\n")
        self.assertIn(f"{path}:1: no JSON", self.refusal(lambda: scores.read_texts(path, "x")))
        path = self.folder / "b.txt.gz"
        self.assertIn(str(path), self.refusal(lambda: scores.read_texts(path, "x")))
        path.write_bytes(gzip.compress(b"text" * 100)[:-9])
        self.assertIn(str(path), self.refusal(lambda: scores.read_texts(path, "x")))

    def test_texts_that_do_not_belong_together_are_refused(self):
        ours, theirs = self.write("ours", "1\n2\n"), self.write("theirs", "1\n2\n3\n")
        said = self.refusal(lambda: scores.read_both(ours, theirs, "x"))
        for part in (str(ours), "2 texts", str(theirs), "3"):
            self.assertIn(part, said)
        theirs.write_text("1\n \n")
        self.assertIn("text 2 is empty", self.refusal(lambda: scores.read_both(ours, theirs, "x")))
        ours.write_text("\n\n")
        theirs.write_text("1\n2\n")
        self.assertEqual(scores.read_both(ours, theirs, "x"), (["", ""], ["1", "2"]))
        ours.write_text("")
        theirs.write_text("")
        self.assertIn("no texts", self.refusal(lambda: scores.read_both(ours, theirs, "x")))

    def test_sentences_end_at_marks_and_lines(self):
        for text, parts in (
            ("A b. C d! E", ["A b.", "C d!", "E"]),
            ('He said "no." Then 3.5 left.', ['He said "no."', "Then 3.5 left."]),
            ("Heading\n\nsome text .\nmore", ["Heading", "some text .", "more"]),
            ("a.\nb", ["a.", "b"]),
            (" \n ", []),
            ("", []),
        ):
            self.assertEqual(scores.sentences(text), parts, text)


class Intervals(unittest.TestCase):
    def test_of_what_varies_as_the_normal_law_says_and_of_the_same_none(self):
        self.assertEqual(scores.interval([[0.25] * 7], 100, 1), (0.25, 0.25))
        values = [i / 400 for i in range(400)]
        low, high = scores.interval([values], 2000, 1)
        half = 1.96 * math.sqrt(1 / 12 / 400)
        mean = sum(values) / 400
        self.assertAlmostEqual(low, mean - half, delta=0.1 * half)
        self.assertAlmostEqual(high, mean + half, delta=0.1 * half)

    def test_of_few_seeds_it_holds_the_truth_as_often_as_it_says(self):
        draw = random.Random(1)
        for seeds in (2, 3, 5):
            held = 0
            for trial in range(200):
                values = [
                    [draw.gauss(0, 1)] * 4 for _ in range(seeds)
                ]  # texts alike: seeds are all that varies
                low, high = scores.interval(values, 80, trial)
                held += low <= 0 <= high
            self.assertGreaterEqual(
                held, 180, seeds
            )  # of 190 that are expected; three deviations are 9

    def test_a_seed_takes_the_same_places(self):
        values = [0.1, 0.5, 0.2, 0.9]
        low, high = scores.interval([values], 100, 3)
        self.assertEqual(scores.interval([values], 100, 3), (low, high))
        twice = scores.interval([[2 * value for value in values]], 100, 3)
        self.assertAlmostEqual(twice[0], 2 * low)
        self.assertAlmostEqual(twice[1], 2 * high)


class Rates(WithFolder):
    def cost(self, name, **said):
        path = self.write(name, "text\n")
        self.write(name + ".cost.json", json.dumps(said))
        return path

    def test_are_of_all_files_together(self):
        a = self.cost("a.txt", texts=2, tokens=100, seconds=1.0, threads=2)
        b = self.cost("b.txt", texts=2, tokens=300, seconds=1.0, threads=2)
        found = scores.decoding_rate([a, b])
        self.assertEqual((found.metric, found.value, found.low), ("tokens_per_s", 200, None))
        self.assertIn("from 100 to 300", found.note)

    def test_are_none_where_a_file_does_not_say(self):
        a = self.cost("a.txt", texts=2, tokens=100, seconds=1.0, threads=2)
        for other in (
            self.write("lead.txt", "x"),
            self.cost("b.txt", texts=2, tokens=100, seconds=1.0, threads=1),
            self.cost("c.txt", texts=2),
        ):
            self.assertIsNone(scores.decoding_rate([a, other]))
        self.assertIsNone(scores.decoding_rate([self.cost("d", tokens=0, seconds=0, threads=1)]))


class Records(WithFolder):
    def test_a_package_that_is_missing_is_named_with_its_remedy(self):
        with mock.patch.dict(sys.modules, {"sacrebleu": None, "sacrebleu.metrics": None}):
            said = self.refusal(score_translations.metrics)
        self.assertIn("sacrebleu is not installed", said)
        self.assertIn("experiments/scoring/requirements.txt", said)
        with mock.patch.dict(sys.modules, {"rouge_score": None, "rouge_score.rouge_scorer": None}):
            said = self.refusal(lambda: score_summaries.scorer(True))
        self.assertIn("rouge-score is not installed", said)

    def test_scores_are_recorded_once(self):
        fakes = {"bleu": FakeMetric(), "chrf": FakeMetric()}
        with mock.patch.object(score_translations, "metrics", lambda: fakes):
            records, said = self.run_scorer(score_translations)
            again, said_again = self.run_scorer(score_translations)
            other, _ = self.run_scorer(score_translations, "--seed", "2")
            forced, _ = self.run_scorer(score_translations, "--force")
        self.assertEqual([r["metric"] for r in records], ["bleu", "chrf"])
        for record in records:
            self.assertEqual((record["low"], record["high"]), (37.0, 43.0))
            self.assertEqual(
                (record["study"], record["row"], record["status"], record["repeats"]),
                ("scores", "r.1", "ok", 3),
            )
            self.assertEqual(record["config"]["signature"], "bs:200|version:fake")
            self.assertIn("bs:200|version:fake", record["note"])
        self.assertIn("bleu: 0 (37 to 43) points", said)
        self.assertEqual((again, said_again), (records, "already recorded\n"))
        self.assertEqual((len(other), len(forced)), (4, 6))

    def test_summaries_have_eight_scores(self):
        with mock.patch.object(
            score_summaries, "scorer", lambda stemmed: FakeScorer(score_summaries.KINDS, stemmed)
        ):
            records, _ = self.run_scorer(score_summaries)
        self.assertEqual(
            [r["metric"] for r in records],
            [
                "rouge1",
                "rouge2",
                "rougeLsum",
                "rougeL",
                "rouge1.stemmed",
                "rouge2.stemmed",
                "rougeLsum.stemmed",
                "rougeL.stemmed",
            ],
        )
        for record in records:
            self.assertLess(record["low"], record["value"])
            self.assertLess(record["value"], record["high"])
            self.assertAlmostEqual(record["config"]["precision"], record["value"] / 2)
            self.assertAlmostEqual(record["config"]["recall"], record["value"] / 4)
        self.assertAlmostEqual(records[4]["value"], records[0]["value"] + 0.25)

    def test_others_are_compared_document_by_document(self):
        others = self.write("other.txt", "the x x\n\n" + THEIRS[2] + "\n")
        with mock.patch.object(
            score_summaries, "scorer", lambda stemmed: FakeScorer(score_summaries.KINDS, stemmed)
        ):
            records, said = self.run_scorer(score_summaries, "--against", str(others))
            fewer = self.write("fewer.txt", "one\n")
            refusal = self.refusal(
                lambda: self.run_scorer(score_summaries, "--against", str(fewer))
            )
        self.assertEqual(len(records), 16)
        found = {r["metric"]: r for r in records}
        own, above = found["rouge1"], found["rouge1.above_other"]
        self.assertAlmostEqual(above["config"]["others"], own["value"] - above["value"])
        # Of nine words one, of six none, of seven all are the same, halved.
        self.assertAlmostEqual(above["config"]["others"], (1 / 9 + 0 + 1) / 6)
        self.assertIn("less other document", above["note"])
        self.assertIn("--against other.txt", above["command"])
        self.assertIn("rouge1.above_other: ", said)
        self.assertIn("fewer.txt has 1 texts", refusal)

    def test_several_seeds_are_one_row(self):
        args = types.SimpleNamespace(
            draws=400,
            seed=1,
            key="x",
            references=self.write("theirs.txt", "a b\nc d\n"),
            against=[],
        )
        references = ["a b", "c d"]
        ours = [["a b", "c d"], ["a b", "x y"]]
        with mock.patch.object(
            score_summaries, "scorer", lambda stemmed: FakeScorer(score_summaries.KINDS, stemmed)
        ):
            both = score_summaries.score(ours, references, args)[0]
            first = score_summaries.score(ours[:1], references, args)[0]
            args.against = [
                self.write("other1.txt", "a b\nx y\n"),
                self.write("other2.txt", "x\nx\n"),
            ]
            above = score_summaries.score(ours, references, args)[-1]
            args.against = args.against[:1]
            above_one = score_summaries.score(ours, references, args)[8]
        self.assertAlmostEqual(both.value, (0.5 + 0.5 + 0.5 + 0) / 4)
        # Of two seeds Student's interval, 0.375 beside 12.7 times 0.125, reaches farther than what resampling finds.
        self.assertAlmostEqual(both.low, 0.375 - 12.7062 * 0.125, places=4)
        self.assertAlmostEqual(both.high, 0.375 + 12.7062 * 0.125, places=4)
        self.assertEqual((first.value, first.low, first.high), (0.5, 0.5, 0.5))
        self.assertEqual(above.metric, "rougeL.stemmed.above_other")
        self.assertAlmostEqual(above.value, (0 + 0.5 + 0.5 + 0) / 4)
        self.assertAlmostEqual(above_one.value, (0 + 0.5 + 0 + 0) / 4)
        self.assertIn("2 seeds", both.note)

    def test_files_to_compare_with_are_as_many_or_one(self):
        paths = [str(self.write(f"{i}.txt", "a\n")) for i in range(3)]
        command = ["scorer", "--hypotheses", *paths, "--references", paths[0], "--row", "r"]
        command += ["--results", str(self.folder), "--against", *paths[:2]]
        with (
            mock.patch.object(sys, "argv", command),
            contextlib.redirect_stderr(io.StringIO()) as said,
            self.assertRaises(SystemExit),
        ):
            scores.parse("", "e", takes_several=True)
        self.assertIn("--against names 2 files and --hypotheses 3", said.getvalue())

    def test_empty_one_word_and_several_lines_are_texts(self):
        fake = FakeScorer(score_summaries.KINDS, False)
        with mock.patch.object(score_summaries, "scorer", lambda stemmed: fake):
            each = score_summaries.each_score(
                ["", "one", "a b. c"], ["one", "one", "a\nb. c"], False
            )
        self.assertEqual([one["rouge1"].fmeasure for one in each], [0, 0.5, 0.5])
        with (
            mock.patch.object(fake, "score", lambda *texts: texts),
            mock.patch.object(score_summaries, "scorer", lambda stemmed: fake),
        ):
            given = score_summaries.each_score([" \n"], ["A b. C\n\nd e."], False)
        self.assertEqual(given, [("A b.\nC\nd e.", "")])

    def test_too_few_draws_are_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            self.run_scorer(score_summaries, "--draws", "39")
        self.assertIn("--draws 39", said.getvalue())


@unittest.skipUnless(HAS_SACREBLEU, f"sacrebleu {WHY}")
class SacreBleu(WithFolder):
    def test_bleu_is_its_definition_and_the_signature_says_how(self):
        records, _ = self.run_scorer(score_translations)
        found = {r["metric"]: r for r in records}
        self.assertAlmostEqual(found["bleu"]["value"], bleu(OURS, THEIRS), places=4)
        self.assertLess(found["bleu"]["low"], found["bleu"]["high"])
        for part in ("nrefs:1", "bs:200", "seed:1", "tok:13a", "smooth:exp", "version:2.5.1"):
            self.assertIn(part, found["bleu"]["note"])
        self.assertIn("nc:6", found["chrf"]["note"])
        self.assertTrue(0 < found["chrf"]["value"] < 100)

    def test_what_is_above_other_texts_is_the_difference_of_both(self):
        others = ["a cat sat", *THEIRS[1:]]
        args = types.SimpleNamespace(draws=200, seed=1)
        found = score_translations.above(THEIRS, others, THEIRS, "others", args)
        self.assertEqual((found.metric, found.unit), ("bleu.above_others", "points"))
        self.assertAlmostEqual(found.value, 100 - bleu(others, THEIRS), places=4)
        self.assertAlmostEqual(found.config["others"], bleu(others, THEIRS), places=4)
        # Where only the others' equal texts are drawn there is none.
        self.assertAlmostEqual(found.low, 0, places=4)
        self.assertGreater(found.high, found.value)
        same = score_translations.above(OURS, OURS, THEIRS, "same", args)
        self.assertEqual((same.value, same.low, same.high), (0, 0, 0))

    def test_the_same_texts_have_all_points(self):
        args = types.SimpleNamespace(draws=50, seed=1, against=[])
        for one in score_translations.score([THEIRS], THEIRS, args):
            self.assertAlmostEqual(one.value, 100, places=4)
            self.assertAlmostEqual(one.low, 100, places=4)
        for one in score_translations.score([["x"] * 3], THEIRS, args):
            self.assertLess(one.value, 5)


@unittest.skipUnless(HAS_ROUGE, f"rouge-score {WHY}")
class Rouge(WithFolder):
    def test_each_is_its_definition(self):
        records, _ = self.run_scorer(score_summaries)
        found = {r["metric"]: r["value"] for r in records}
        pairs = list(zip(OURS, THEIRS))
        for n in (1, 2):
            wanted = sum(rouge(n, *pair) for pair in pairs) / len(pairs)
            self.assertAlmostEqual(found[f"rouge{n}"], wanted)
        each = ((a.split(), b.split()) for a, b in pairs)
        longest = [f1(longest_common(a, b), len(a), len(b)) for a, b in each]
        self.assertAlmostEqual(found["rougeLsum"], sum(longest) / len(longest))

    def test_stemmed_words_meet_and_sentences_are_compared_one_by_one(self):
        args = types.SimpleNamespace(draws=50, seed=1, against=[])
        found = {
            one.metric: one.value
            for one in score_summaries.score([["cats running"]], ["cat runs"], args)
        }
        self.assertEqual((found["rouge1"], found["rouge1.stemmed"]), (0, 1))
        # Whole texts know no sentences.
        turned = score_summaries.score([["A b c. D e f."]], ["D e f. A b c."], args)
        found = {one.metric: one.value for one in turned}
        self.assertEqual((found["rougeLsum"], found["rougeL"]), (1, 0.5))

    def test_values_are_the_package_s_own_whatever_the_texts(self):
        from rouge_score.rouge_scorer import RougeScorer

        ours = ["", "word", "One two. Three four.", "a b\nc d", "!!! ???", OURS[0]]
        theirs = ["some words here", "word", "three four.\none two", "c d. a b.", "word", THEIRS[0]]
        for stemmed in (False, True):
            package = RougeScorer(["rouge1", "rouge2", "rougeLsum", "rougeL"], use_stemmer=stemmed)
            each = score_summaries.each_score(ours, theirs, stemmed)
            for got, text, reference in zip(each, ours, theirs):
                split = ["\n".join(scores.sentences(t)) for t in (reference, text)]
                self.assertEqual(got, package.score(*split))
            kept = package.score(theirs[3].replace(". ", ".\n"), ours[3])
            self.assertEqual(each[3]["rougeLsum"], kept["rougeLsum"])
        self.assertEqual(each[0]["rougeLsum"].fmeasure, 0)
        self.assertEqual(each[1]["rouge1"].fmeasure, 1)
        self.assertEqual(each[4]["rouge1"].fmeasure, 0)


if __name__ == "__main__":
    unittest.main()
