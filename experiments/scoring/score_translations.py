"""BLEU and chrF of hypotheses by sacreBLEU, with its signatures, and 95 % intervals of its own bootstrap over
texts. Example:

    build/scoring/bin/python experiments/scoring/score_translations.py --results DIR --row ff_qkv.1 \\
      --hypotheses hypotheses.txt --references test_2016_flickr.de
"""

import json
import os

import scores


def metrics():
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        scores.package("sacrebleu")
    return {"bleu": BLEU(), "chrf": CHRF()}


def score(each_hypotheses, references, args):
    """[Score], in points of 100. Of a text of several lines these are one."""
    (hypotheses,) = each_hypotheses
    os.environ["SACREBLEU_SEED"] = str(args.seed)
    ours, theirs = (
        [" ".join(text.split("\n")) for text in texts] for texts in (hypotheses, references)
    )
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
    return found


if __name__ == "__main__":
    scores.run(scores.parse(__doc__, "translations"), "score_translations.py", score)
