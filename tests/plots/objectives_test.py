"""The section on pre-training objectives: who is compared with whom, its table, its ids, and rows that began wrongly."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import curves_test as made_up  # noqa: E402
import finetuning  # noqa: E402
import glue_section_test as glue_made_up  # noqa: E402
import make_report  # noqa: E402
import scores_test as scores_made_up  # noqa: E402
import sections  # noqa: E402
import summarise  # noqa: E402
import training_curves  # noqa: E402
from report import Report  # noqa: E402
from sections import objectives  # noqa: E402
from with_folder import WithFolder  # noqa: E402

ITEMS = 400
PLANNED = "none,span_corruption,denoising,gap_mixed"


def about(part):
    return {
        "study": "training",
        "section": "objectives",
        "title": f"Objectives, {part}",
        "id": f"objectives.{part}",
    }


def pretrained(row, task, nats):
    """Each task is a text of its own to the records."""
    return made_up.record(
        row,
        "log_perplexity",
        nats,
        experiment="objectives_pretrain",
        data=task + row,
        config={"task": task},
        **about("pretrain"),
    )


def qqp(row, told, init=None):
    """A finished row: of each seed which test rows it told rightly."""
    found = []
    for seed, bits in enumerate(told, start=1):
        config = {"task": "glue_qqp", "init": init or f"weights of {row}", "planned": PLANNED}
        for metric, value in (
            ("label_accuracy", sum(bits) / len(bits)),
            ("log_perplexity", 0.5),
            ("evaluation", 0.5),
        ):
            more = {}
            if metric == "evaluation":
                more = {"step": 1200}
                config = config | {"items": len(bits), "right": glue_made_up.digits(bits)}
            found.append(
                made_up.record(
                    row,
                    metric,
                    value,
                    seed,
                    "objectives_qqp",
                    config=config,
                    **more,
                    **about("qqp"),
                )
            )
    return found


def sumpubmed(row, init=None):
    return made_up.record(
        row,
        "log_perplexity",
        4.0,
        experiment="objectives_sumpubmed",
        config={"task": "pairs", "init": init or f"weights of {row}", "planned": PLANNED},
        **about("sumpubmed"),
    )


def rouge(row, value):
    return [
        scores_made_up.record(row, metric, value + more, experiment="objectives")
        for metric, more in (("rouge1", 0.0), ("rouge2", -0.1), ("rougeLsum", -0.05))
    ]


def shifted(bits, by):
    """As many told rightly, others of them."""
    return bits[-by:] + bits[:-by]


class WithRecords(WithFolder):
    def measured(self, *more):
        half, most = glue_made_up.right(0.5, 3), glue_made_up.right(0.75, 3)
        return self.load(
            [
                pretrained("none", "span_corruption", 8.3),
                pretrained("span_corruption", "span_corruption", 3.25),
                pretrained("denoising", "denoising", 1.5),
                *qqp("none", half),
                *qqp("same", half),
                *qqp("span_corruption", most),
                *qqp("denoising", [shifted(bits, 40) for bits in half]),
                *(sumpubmed(row) for row in ("none", "span_corruption", "denoising")),
                *rouge("none", 0.2),
                *rouge("span_corruption", 0.25),
                *rouge("lead", 0.375),
                glue_made_up.baseline("majority", 0.5)
                | {"row": "glue_qqp.majority", "config": {"examples": ITEMS}},
                *more,
            ]
        )

    def text(self, records):
        report = Report(records)
        objectives.write(report, [])
        return report.text()


class AccuracyTest(WithRecords):
    def test_interval_is_over_seeds_and_test_rows(self):
        records = self.measured()
        experiment = training_curves.Experiment(records, "objectives_qqp")
        found = finetuning.accuracy(experiment, "span_corruption")
        self.assertAlmostEqual(found.value, 0.75)
        self.assertEqual(found.seeds, 3)
        half = 1.96 * (0.75 * 0.25 / ITEMS) ** 0.5  # seeds are alike
        self.assertAlmostEqual(found.low, 0.75 - half, delta=0.01)
        self.assertAlmostEqual(found.high, 0.75 + half, delta=0.01)
        self.assertIsNone(finetuning.accuracy(experiment, "gap_mixed"))

    def test_seeds_with_other_test_rows_have_no_mean(self):
        told = glue_made_up.right(0.5, 2)
        records = self.load(qqp("none", [told[0], told[1][:-4]]))
        experiment = training_curves.Experiment(records, "objectives_qqp")
        self.assertIsNone(finetuning.accuracy(experiment, "none"))


class SectionTest(WithRecords):
    def test_ids(self):
        found = summarise.figures(self.measured())
        self.assertAlmostEqual(found["objectives.none.qqp"].value, 0.5)
        self.assertAlmostEqual(found["objectives.span_corruption.qqp"].value, 0.75)
        self.assertAlmostEqual(found["objectives.span_corruption.qqp_difference"].value, 0.25)
        self.assertEqual(found["objectives.span_corruption.qqp_difference"].seeds, 3)
        self.assertAlmostEqual(found["objectives.span_corruption.log_perplexity"].value, 3.25)
        self.assertAlmostEqual(found["objectives.denoising.log_perplexity"].value, 1.5)
        self.assertAlmostEqual(found["objectives.span_corruption.rouge1"].value, 0.25)
        self.assertAlmostEqual(found["objectives.span_corruption.rouge2"].value, 0.15)
        self.assertAlmostEqual(found["objectives.none.rougeLsum"].low, 0.14)
        self.assertEqual(found["objectives.majority.qqp"].value, 0.5)
        for absent in ("none.qqp_difference", "none.log_perplexity", "gap_mixed.qqp", "lead.qqp"):
            self.assertNotIn(f"objectives.{absent}", found)

    def test_test_rows_are_paired(self):
        """As many right as the control, some of other rows; unpaired, the ends would lie at 0.07."""
        found = summarise.figures(self.measured())
        moved, same = (found[f"objectives.{r}.qqp_difference"] for r in ("denoising", "same"))
        self.assertAlmostEqual(moved.value, 0)
        # Of 400 rows 40 are gained and 40 lost.
        self.assertAlmostEqual(moved.high, 1.96 * (0.2 / ITEMS) ** 0.5, delta=0.006)
        self.assertEqual((same.value, same.low, same.high), (0, 0, 0))

    def test_seeds_are_paired(self):
        seeds = [shares[0] for shares in (glue_made_up.right(s, 1) for s in (0.3, 0.5, 0.7))]
        better = [[*bits[:-20], *[1] * 20] for bits in seeds]  # the last 20 of 400 rows
        records = self.load(qqp("none", seeds) + qqp("span_corruption", better))
        paired = objectives.rows(records)["span_corruption"].difference
        self.assertAlmostEqual(paired.value, 0.05)
        self.assertLess(paired.high - paired.low, 0.05)
        crossed = self.load(qqp("none", seeds) + qqp("span_corruption", better[::-1]))
        found = objectives.rows(crossed)["span_corruption"].difference
        self.assertGreater(found.high - found.low, 0.2)

    def test_report(self):
        text = self.text(self.measured())
        self.assertIn("## Objectives of pre-training", text)
        self.assertRegex(
            text,
            r"\| `none` \| – \| – \| 50\.0 \[.*\] \| – \| 3 \| 20\.0 \[19\.0, 21\.0\] \| 10\.0 \[.*\] \| 15\.0 \[",
        )
        self.assertRegex(
            text,
            r"\| `span_corruption` \| `span_corruption` \| 3\.25 \| 75\.0 \[7.*\] \| \+25\.0 \[\+2.*\] \| 3 \| 25\.0 ",
        )
        self.assertRegex(text, r"\| `denoising` \| `denoising` \| 1\.50 \|.*\| \+0\.0 \[.*\| – \|")
        self.assertIn("| `gap_mixed` | – | – | – | – | – | – | – | – |", text)
        self.assertIn("| the commonest label | – | – | 50.0 | – | – | – | – | – |", text)
        self.assertNotIn("began from", text)

    def test_a_baseline_of_other_test_rows_is_none_of_these(self):
        records = self.measured(
            glue_made_up.baseline("bag_of_words", 0.9, ITEMS - 1) | {"row": "glue_qqp.bag_of_words"}
        )
        self.assertNotIn("bag of words", self.text(records))

    def test_rows_that_began_from_other_weights_are_told(self):
        swapped = "weights of denoising"
        for row, init, why in (
            ("gap_mixed", swapped, "it began from the same weights as `denoising`"),
            ("same", "", "some of its curves began from nothing"),
        ):
            records = self.measured(sumpubmed(row) | {"config": {"data": "d1", "init": init}})
            self.assertIn(why, objectives.mispaired(records)[row])
            self.assertIn(f"`{row}`: {why}", self.text(records))
        other = self.measured(sumpubmed("same", "others"))
        self.assertEqual(
            objectives.mispaired(other),
            {"same": "its curves did not all begin from the same weights"},
        )

    def test_every_experiment_of_it_is_its_own(self):
        records = self.measured()
        own = {one.name for one in records.of(objectives.OWNS)}
        self.assertEqual(own, {"objectives_pretrain", "objectives_qqp", "objectives_sumpubmed"})
        for section in sections.SECTIONS:
            if section is not objectives.SECTION:
                self.assertFalse(own & {one.name for one in records.of(section.owns)})

    def test_what_is_there_so_far_is_shown(self):
        text = self.text(self.load([pretrained("denoising", "denoising", 1.5)]))
        self.assertIn("| `denoising` | `denoising` | 1.50 | – | – | – |", text)

    def test_nothing_measured_leaves_no_trace(self):
        records = self.load(made_up.FIGURE1 + rouge("lead", 0.3))
        self.assertEqual(self.text(records), "")
        self.assertNotIn("Objectives of pre-training", make_report.make(records))
        found = objectives.numbers(records, [])
        self.assertEqual(found, {})


if __name__ == "__main__":
    unittest.main()
