"""Table 3 in plots/: rows told rightly as records have them, the bootstrap by its definition, verdicts, ids, report."""

import pathlib
import random
import sys
import unittest

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import curves_test as made_up  # noqa: E402
import finetuning  # noqa: E402
import sections  # noqa: E402
import summarise  # noqa: E402
import training_curves  # noqa: E402
from report import Report  # noqa: E402
from sections import glue  # noqa: E402
from with_folder import WithFolder  # noqa: E402

NAME, ITEMS = "table3_sst2", 400
ABOUT = {"study": "training", "section": "glue", "title": "Table 3, SST-2", "id": "table3.sst2"}


def digits(bits):
    """As experiments/training/curve_csv.cpp writes them."""
    text = "".join("01"[bool(bit)] for bit in bits)
    text += "0" * (-len(text) % 4)
    return "".join(f"{int(text[i : i + 4], 2):x}" for i in range(0, len(text), 4))


def row(name, told, experiment=NAME, rate=0.001, settings=None, **about):
    """A finished row: of each seed which test rows it told rightly."""
    about = ABOUT | about
    found = []
    for seed, bits in enumerate(told, start=1):
        start = {"ff_qkv_soft": "ff_qkv"}.get(name, name)
        config = {"task": "glue_sst2", "learning_rate": rate, "steps": 200, "init": f"of {start}"}
        config |= settings or {}
        share = sum(bits) / len(bits)
        for metric, value in (
            ("label_accuracy", share),
            ("sequence_accuracy", share - 0.01),
            ("log_perplexity", 0.5),
        ):
            found.append(
                made_up.record(name, metric, value, seed, experiment, config=config, **about)
            )
        for step, right in ((100, [0] * len(bits)), (200, bits)):
            at = config | {"items": len(bits), "right": digits(right)}
            found.append(
                made_up.record(
                    name, "evaluation", 0.5, seed, experiment, step=step, config=at, **about
                )
            )
    return found


def baseline(name, value, items=ITEMS, **more):
    return made_up.record(
        f"glue_sst2.{name}",
        "label_accuracy",
        value,
        config={"task": "glue_sst2", "examples": items, "learnt_from": 900},
        **{
            "experiment": "glue_baselines",
            "threads": 1,
            "study": "peers",
            "section": "glue",
            **more,
        },
    )


def right(share, seeds=5, items=ITEMS, flipped=0.0, seed=0):
    """The same rows told rightly by every seed, but for a share that each draws anew."""
    draw = random.Random(seed)
    return [
        [int((i < share * items) != (draw.random() < flipped)) for i in range(items)]
        for _ in range(seeds)
    ]


class BootstrapTest(unittest.TestCase):
    def test_bits_come_back(self):
        for bits in ([1, 0, 1, 1, 0], [0] * 8, [1] * 9, [0, 0, 0, 1]):
            record = {"config": {"items": len(bits), "right": digits(bits)}}
            self.assertEqual(finetuning.rightly_told(record).tolist(), [bool(b) for b in bits])
        self.assertEqual(digits([1, 0, 1, 1, 0]), "b0")
        self.assertIsNone(finetuning.rightly_told({"config": {}}))

    def test_interval_is_that_of_its_definition(self):
        draw = numpy.random.default_rng(3)
        differences = draw.choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=(4, 50))
        differences += draw.choice([0.0, 0.3], size=(4, 1))  # seeds differ, too
        means = []
        for _ in range(20_000):
            seeds, items = draw.integers(4, size=4), draw.integers(50, size=50)
            means.append(differences[numpy.ix_(seeds, items)].mean())
        ends = numpy.quantile(means, (0.025, 0.975))
        for ours, theirs in zip(finetuning.bootstrap(differences), ends):
            self.assertAlmostEqual(ours, theirs, delta=0.012)
        self.assertGreater(ends[1] - ends[0], 0.1)

    def test_one_seed_that_stands_apart_decides_nothing(self):
        draw = numpy.random.default_rng(5)
        shifts = numpy.array([0.004, 0.016, 0.052, 0.009, 0.008])  # Student: 0.018 +- 0.024
        differences = (draw.random((5, 10_000)) < shifts[:, None]).astype(float)
        self.assertGreater(finetuning.bootstrap(differences)[0], 0)
        low, high = finetuning.interval(differences)
        self.assertAlmostEqual(low, 0.0178 - 0.0245, delta=0.004)
        self.assertAlmostEqual(high, 0.0178 + 0.0245, delta=0.004)
        # Seeds that agree by chance leave what test rows alone make of it.
        alike = numpy.tile(draw.choice([-1.0, 0.0, 1.0], size=400), (3, 1))
        self.assertEqual(finetuning.interval(alike), finetuning.bootstrap(alike))

    def test_without_differences_there_is_nothing_between_the_ends(self):
        for end in finetuning.interval(numpy.full((3, 20), 0.5)):
            self.assertAlmostEqual(end, 0.5)


class VerdictTest(WithFolder):
    def of(self, ours, dense, *more):
        records = self.load(row("dense", dense) + row("ff_qkv", ours) + list(more))
        return records, training_curves.Experiment(records, NAME)

    def judged(self, ours, dense, *more):
        _, experiment = self.of(ours, dense)
        comparison = finetuning.compare(experiment, "ff_qkv")
        return finetuning.verdict(comparison, *more)

    def test_the_same_answers_are_alike_if_dense_beats_the_commonest_label(self):
        told = right(0.8)
        self.assertEqual(self.judged(told, told, 0.5), ("alike", ""))
        self.assertEqual(self.judged(told, told, 0.76)[0], "undecided")
        self.assertIn("4.0 points above", self.judged(told, told, 0.76)[1])
        self.assertIn("not on record", self.judged(told, told, None)[1])

    def test_an_interval_on_one_side_differs_in_either_direction(self):
        for ours, dense in ((0.7, 0.8), (0.8, 0.7)):
            word, why = self.judged(right(ours), right(dense), 0.5)
            self.assertEqual(word, "differs")
            self.assertEqual(why, "test rows alone show no less than 2.9 points")
        word, why = self.judged(right(0.7), right(0.8), 0.76)
        self.assertEqual(word, "differs")
        self.assertIn("4.0 points above the commonest label", why)

    def test_a_wide_interval_is_undecided_and_says_what_could_be_seen(self):
        word, why = self.judged(right(0.8, flipped=0.2, seed=1), right(0.8, flipped=0.2), 0.5)
        self.assertEqual(word, "undecided")
        self.assertRegex(why, r"no less than [1-9]\.\d points$")

    def test_seeds_that_widen_the_interval_are_said_to(self):
        shares = (0.5, 0.9, 0.6, 0.8, 0.75)
        told = [bits for share in shares for bits in right(share, 1)]
        word, why = self.judged(told, right(0.72), 0.5)
        self.assertEqual(word, "undecided")
        self.assertIn("seeds widen the interval", why)

    def test_two_seeds_are_too_few(self):
        for seeds, why in ((1, "one seed, not 3"), (2, "2 seeds, not 3")):
            told = right(0.7, seeds), right(0.8, seeds)
            self.assertEqual(
                self.judged(*told, 0.5),
                ("undecided", f"test rows alone show no less than 2.9 points; {why}"),
            )

    def test_only_seeds_of_both_count_and_their_last_points(self):
        _, experiment = self.of(right(0.7, 2), right(0.8, 4))
        comparison = finetuning.compare(experiment, "ff_qkv")
        self.assertEqual((comparison.seeds, comparison.items), (2, ITEMS))
        self.assertAlmostEqual(comparison.value.value, 0.1)
        self.assertAlmostEqual(comparison.dense, 0.8)
        # Of differences of 1 in a tenth of the rows.
        self.assertAlmostEqual(comparison.least, 1.96 * (0.1 * 0.9 / ITEMS) ** 0.5, places=4)
        self.assertIsNone(finetuning.compare(experiment, "terraformer"))

    def test_a_task_is_as_its_rows(self):
        self.assertEqual(finetuning.of_task(["alike", "alike"]), "alike")
        self.assertEqual(finetuning.of_task(["alike", "undecided"]), "undecided")
        self.assertEqual(finetuning.of_task(["alike", "differs", "undecided"]), "differs")


class SectionTest(WithFolder):
    def records(self):
        return self.load(
            row("dense", right(0.9, 3))
            + row("ff_qkv", right(0.7, 3))
            + row("terraformer", right(0.9, 3))
            + [
                baseline("majority", 0.51),
                baseline("bag_of_words", 0.8),
                # Scored on other rows: of no use here.
                baseline("bag_of_words", 0.1, ITEMS - 1, experiment="glue_other"),
            ]
            + [
                r
                for name, rate, share in (("dense.r3", 0.0003, 0.7), ("dense.r10", 0.001, 0.75))
                for r in row(
                    name,
                    right(share, 1),
                    "table3_rates_sst2",
                    rate,
                    section="glue_rates",
                    id="table3.rates.sst2",
                )
            ]
        )

    def test_ids(self):
        found = summarise.figures(self.records())
        self.assertAlmostEqual(found["table3.sst2.dense.label_accuracy"].value, 0.9)
        self.assertEqual(found["table3.sst2.dense.label_accuracy"].seeds, 3)
        self.assertAlmostEqual(found["table3.sst2.ff_qkv.sequence_accuracy"].value, 0.69)
        self.assertAlmostEqual(found["table3.sst2.ff_qkv.difference"].value, 0.2)
        self.assertEqual(found["table3.sst2.ff_qkv.verdict"].value, -1)
        self.assertEqual(found["table3.sst2.terraformer.verdict"].value, 1)
        self.assertEqual(found["table3.sst2.verdict"].value, -1)
        self.assertEqual(found["table3.sst2.majority.label_accuracy"].value, 0.51)
        self.assertEqual(found["table3.sst2.bag_of_words.label_accuracy"].value, 0.8)
        self.assertAlmostEqual(found["table3.sst2.dense.above_bag_of_words"].value, 0.1)
        self.assertFalse([name for name in found if "rates" in name or name.endswith(".f1")])

    def test_what_was_evaluated_on_the_way_has_its_curve(self):
        records = self.records()
        drawn = glue.figures(records, [])
        self.assertEqual(list(drawn), [NAME])
        axes = drawn[NAME](records).axes[0]
        self.assertEqual(axes.get_lines()[0].get_xdata().tolist(), [100, 200])
        (self.folder / "figures").mkdir()
        (self.folder / "figures" / f"{NAME}.png").touch()
        report = Report(records)
        glue.write(report, [])
        self.assertIn(f"figures/{NAME}.svg", report.text())

    def test_report_sets_the_paper_beside(self):
        report = Report(self.records())
        glue.write(report, [])
        text = report.text()
        self.assertIn("### SST-2: 400 test rows, 900 to learn from (GLUE: 872 and 67,349)", text)
        self.assertIn("| `dense` | 0.001 | 90.0 | – | – | 3 | 89.0 | 92.6 (sd 0.85) |", text)
        self.assertRegex(
            text,
            r"`ff_qkv` \| 0.001 \| 70\.0 \| \+20\.0 \[\+1.*\] \| \*\*differs\*\*: .* \| 3 \| 69.0 \| 91\.6 \|",
        )
        self.assertIn(
            "`terraformer` | 0.001 | 90.0 | +0.0 [+0.0, +0.0] | **alike** | 3 | 89.0 | 92.3 |", text
        )
        self.assertIn("All rows: **differs**, 2 of 2 judged.", text)
        self.assertIn("| the commonest label | – | 51.0 |", text)
        self.assertIn("| bag of words | – | 80.0 |", text)
        self.assertIn("without results: QQP, QNLI, MNLI-m, MRPC, RTE.", text)
        self.assertIn("| `dense` | 0.0003 | 70.0 | 70.0 |", text)
        self.assertIn("| `dense` | **0.001** | 75.0 | 75.0 |", text)
        self.assertIn("At an end of the rates that were tried: `dense` 0.001.", text)
        self.assertNotIn("What it cost", text)

    def test_a_best_rate_between_worse_ones_is_at_no_end(self):
        swept = [
            r
            for name, rate, share in (
                ("r3", 0.0003, 0.7),
                ("r10", 0.001, 0.75),
                ("r30", 0.003, 0.7),
            )
            for r in row(
                f"dense.{name}",
                right(share, 1),
                "table3_rates_sst2",
                rate,
                section="glue_rates",
                id="table3.rates.sst2",
            )
        ]
        said = "\n".join(map(str, glue.rates_table(self.load(swept))))
        self.assertIn("**0.001**", said)
        self.assertNotIn("At an end", said)

    def test_costs_are_of_pre_training_and_of_a_fine_tuning(self):
        def costs(name, seconds, experiment, seeds=(1,)):
            return [
                made_up.record(name, metric, value, seed, experiment, threads=1, **ABOUT)
                for seed in seeds
                for metric, value in (
                    ("train_seconds", seconds * seed),
                    ("peak_memory_bytes", 5e8 * seed),
                    ("log_perplexity", 0.5),
                )
            ]

        started = [
            r | {"section": "training", "id": "table3.pretrain"}
            for r in costs("ff_qkv", 1800, "table3_pretrain")
        ]
        tuned = row("ff_qkv_soft", right(0.9, 2)) + costs("ff_qkv_soft", 60, NAME, (1, 2))
        records = self.load(started + tuned)
        said = "\n".join(map(str, glue.cost_table(records, glue.experiments(records))))
        self.assertIn("| `ff_qkv_soft` | 30 | 1.5 | 2 | 1 | 1,000 |", said)

    def test_a_task_is_not_alike_while_planned_rows_are_missing(self):
        planned = {"planned": "dense,ff_qkv,terraformer"}
        told = right(0.8)
        rows = row("dense", told, settings=planned) + row("ff_qkv", told, settings=planned)
        records = self.load(rows + [baseline("majority", 0.5)])
        found = summarise.figures(records)
        self.assertEqual(found["table3.sst2.ff_qkv.verdict"].value, 1)
        self.assertEqual(found["table3.sst2.verdict"].value, 0)
        report = Report(records)
        glue.write(report, [])
        text = report.text()
        self.assertIn("All rows: **undecided**, 1 of 2 judged.", text)
        self.assertIn("Planned, not trained: `terraformer`.", text)

    def test_rows_that_are_not_comparable_are_not_judged(self):
        told = right(0.8)
        rows = row("dense", told) + row("ff_qkv", told) + row("ff_qkv_soft", told)
        rows += row("loss", told, settings={"init": "of dense"})
        rows += row("nothing", told, settings={"init": ""})
        rows += row("longer", told, settings={"steps": 300})
        records = self.load(rows + [baseline("majority", 0.5)])
        experiment = training_curves.Experiment(records, NAME)
        for name, why in (
            ("ff_qkv", "`dense`: it began from the same weights as `loss`"),
            ("nothing", "began from nothing"),
        ):
            self.assertIn(why, glue.judged(records, experiment)[name][2])
        records = self.load([r for r in rows if r["row"] != "loss"] + [baseline("majority", 0.5)])
        judged = glue.judged(records, training_curves.Experiment(records, NAME))
        for name in ("ff_qkv", "ff_qkv_soft"):
            self.assertEqual(judged[name][1], "alike")
        self.assertEqual(judged["longer"][1:], ("undecided", "steps 300, of `dense` 200"))

    def test_similarities_are_not_judged_by_exact_fifths(self):
        told = right(0.8)
        settings = {"task": "glue_stsb"}
        rows = row("dense", told, settings=settings) + row("ff_qkv", told, settings=settings)
        found = summarise.figures(self.load(rows))
        self.assertFalse([name for name in found if "verdict" in name])

    def test_every_experiment_of_it_is_its_own(self):
        records = self.records()
        own = {about.name for about in records.of(glue.SECTION.owns)}
        self.assertEqual(own, {"table3_sst2", "table3_rates_sst2", "glue_baselines", "glue_other"})
        for section in sections.SECTIONS:
            if section is not glue.SECTION:
                self.assertFalse(own & {about.name for about in records.of(section.owns)})

    def test_nothing_fine_tuned_leaves_no_trace(self):
        records = self.load(made_up.FIGURE1)
        report = Report(records)
        glue.write(report, [])
        self.assertEqual(report.chapters, [])
        self.assertFalse([name for name in summarise.figures(records) if "table3" in name])


if __name__ == "__main__":
    unittest.main()
