"""A page to read: summaries of a few documents side by side with the reference and their ROUGE, as the paper's Table 9.

    build/scoring/bin/python experiments/scoring/summaries_page.py --out table9.md \\
      --articles test.jsonl.gz --key article --references_key abstract \\
      dense=dense.txt terraformer=terraformer.txt lead=lead.txt

Each NAME=FILE holds a summary a line, the n-th of the n-th document, as generate and baseline_summaries.py write them.
Which documents are shown nobody chooses: those whose articles' SHA-256 are the smallest, so that neither a score nor a
look decides, and other models on the same set show the same ones. ROUGE is rouge-score's F1, words stemmed, of the one
document (see score_summaries.py, which has the means over all with their intervals).
"""

import argparse
import hashlib
import sys
from pathlib import Path

import score_summaries
import scores

LABELS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeLsum": "ROUGE-LSum", "rougeL": "ROUGE-L"}


def chosen(articles, count):
    """Places of so many documents, in the file's order."""

    def rank(place):
        return hashlib.sha256(articles[place].encode()).hexdigest()

    return sorted(sorted(range(len(articles)), key=rank)[:count])


def quoted(text):
    """A text as Markdown's quotation, its own marks as they are."""
    escaped = "".join("\\" + c if c in "\\`*_[]<>#|" else c for c in text.strip())
    return [f"> {line}" if line else ">" for line in escaped.split("\n")] or [">"]


def scores_of(texts, reference, score):
    """[[cell]]: a line a summary, F1 in percent. score(hypothesis, reference) is {kind: F1}."""
    found = []
    for name, text in texts.items():
        f1 = score(text, reference)
        found.append([name, *(f"{100 * f1[kind]:.2f}" for kind in LABELS)])
    return found


def table(rows):
    head = ["summary", *LABELS.values()]
    lines = [head, ["---", *["---:"] * len(LABELS)], *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def page(title, articles, references, summaries, count, score):
    """Lines of the page. summaries: {name: [text]}, a text a document."""
    places = chosen(articles, count)
    lines = [
        f"# {title}",
        "",
        f"{len(places)} of {len(articles)} documents: those whose articles' SHA-256 are the smallest. ROUGE is F1 "
        "in percent, words stemmed, of the one document.",
    ]
    for place in places:
        words = len(articles[place].split())
        lines += ["", f"## Document {place + 1} ({words:,} words)", "", "Reference:", ""]
        lines += quoted(references[place])
        texts = {name: each[place] for name, each in summaries.items()}
        for name, text in texts.items():
            lines += ["", f"{name}:", "", *quoted(text or "(empty)")]
        lines += ["", *table(scores_of(texts, references[place], score))]
    return lines


def stemmed_f1(hypothesis, reference):
    (found,) = score_summaries.each_score([hypothesis], [reference], True)
    return {kind: found[kind].fmeasure for kind in LABELS}


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("summaries", nargs="+", metavar="NAME=FILE", help="a summary a line")
    parser.add_argument("--articles", type=Path, required=True, help="JSON lines, .gz or not")
    parser.add_argument("--key", default="article", help="of an article (article)")
    parser.add_argument("--references_key", default="abstract", help="of its summary (abstract)")
    parser.add_argument("--count", type=int, default=10, help="documents to show (10)")
    parser.add_argument("--title", default="Summaries side by side")
    parser.add_argument("--out", type=Path, required=True, help="the page, Markdown")
    args = parser.parse_args()
    if args.count < 1:
        parser.error(f"--count {args.count}: give 1 at least")
    return args


def main():
    args = parse()
    articles = scores.read_texts(args.articles, args.key)
    references = scores.read_texts(args.articles, args.references_key)
    summaries = {}
    for word in args.summaries:
        name, equals, path = word.partition("=")
        if not equals or not name or not path:
            sys.exit(f"'{word}' is no NAME=FILE, as dense=dense.txt")
        if name in summaries:
            sys.exit(f"'{name}' names two files; give each a name of its own")
        texts = scores.read_texts(Path(path), args.key)
        if len(texts) != len(articles):
            sys.exit(
                f"{path} has {len(texts)} summaries and {args.articles} {len(articles)} articles; repeat the "
                "command that wrote the summaries, which goes on, or name the articles that it read"
            )
        summaries[name] = texts
    lines = page(args.title, articles, references, summaries, args.count, stemmed_f1)
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(
        f"{args.out}: {min(args.count, len(articles))} documents, {len(summaries)} summaries of each"
    )


if __name__ == "__main__":
    main()
