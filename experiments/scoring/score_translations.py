"""BLEU and chrF of hypotheses by sacreBLEU, with its signatures, and 95 % intervals of its own bootstrap over
texts. Example:

    build/scoring/bin/python experiments/scoring/score_translations.py --results DIR --row ff_qkv.1 \\
      --hypotheses hypotheses.txt --references test_2016_flickr.de --against dense.1.txt

--against: hypotheses of the same sources by something else; how far BLEU is above theirs is recorded too, with an
interval over resamples of texts, the same ones of both.
"""

import json
import os
import random

import scores


def metrics():
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        scores.package("sacrebleu")
    return {"bleu": BLEU(), "chrf": CHRF()}


def joined(texts):
    """Of a text of several lines these are one."""
    return [" ".join(text.split("\n")) for text in texts]


def counts_of(bleu, hypotheses, references):
    """[what a text adds to the corpus's BLEU]: n-grams that match and that are there, and both lengths."""
    each = (bleu.sentence_score(ours, [theirs]) for ours, theirs in zip(hypotheses, references))
    return [(one.counts, one.totals, one.sys_len, one.ref_len) for one in each]


def bleu_of(bleu, counts):
    """The corpus's BLEU of these texts."""
    matches, grams, ours, theirs = zip(*counts)
    return bleu.compute_bleu(
        correct=[sum(n) for n in zip(*matches)],
        total=[sum(n) for n in zip(*grams)],
        sys_len=sum(ours),
        ref_len=sum(theirs),
        smooth_method="exp",
    ).score


def above(hypotheses, others, references, name, args):
    """Score of the difference, and the middle 95 % of it over resamples of texts."""
    from sacrebleu.metrics import BLEU

    bleu = BLEU(effective_order=True)  # asked for text by text, and not used for sums
    ours, theirs = (counts_of(bleu, texts, references) for texts in (hypotheses, others))
    rng = random.Random(args.seed)
    drawn = []
    for _ in range(args.draws):
        places = rng.choices(range(len(ours)), k=len(ours))
        drawn.append(
            bleu_of(bleu, [ours[i] for i in places]) - bleu_of(bleu, [theirs[i] for i in places])
        )
    drawn.sort()
    beyond = args.draws // 40
    other = bleu_of(bleu, theirs)
    return scores.Score(
        f"bleu.above_{name}",
        "points",
        bleu_of(bleu, ours) - other,
        drawn[beyond],
        drawn[args.draws - 1 - beyond],
        f"less {name}; 95 % bootstrap interval over texts, the same ones of both",
        {"others": other},
    )


def score(each_hypotheses, references, args):
    """[Score], in points of 100; then the difference to --against, if given."""
    (hypotheses,) = each_hypotheses
    os.environ["SACREBLEU_SEED"] = str(args.seed)
    ours, theirs = joined(hypotheses), joined(references)
    found = []
    for name, metric in metrics().items():
        scored = metric.corpus_score(ours, [theirs], n_bootstrap=args.draws)
        signature = str(metric.get_signature())
        # Its public form; the mean of the draws is not the score itself.
        said = json.loads(scored.format(width=6, signature=signature, is_json=True))
        middle, half = said.get("confidence_mean", said["score"]), said.get("confidence_var", 0.0)
        found.append(
            scores.Score(
                name,
                "points",
                said["score"],
                middle - half,
                middle + half,
                f"sacreBLEU {signature}; 95 % interval over texts by its bootstrap",
                {"signature": signature},
            )
        )
    for path in args.against:
        others, _ = scores.read_both(path, args.references, args.key)
        found.append(above(ours, joined(others), theirs, path.stem, args))
    return found


if __name__ == "__main__":
    scores.run(scores.parse(__doc__, "translations"), "score_translations.py", score)
