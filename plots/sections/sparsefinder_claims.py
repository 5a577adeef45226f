"""Sparsefinder's claims, fixed before any teacher was swept: pass, fail or inconclusive by differences with intervals.

Two were corrected with figures seen: which methods C6 compares, and by which neighbours C7 goes.

The differences are tools/sparsefinder_differences.py's: recall at equal sparsity, of one method less another.
"""

import re
from typing import NamedTuple

from report import header, line
from section import of
from sections import sparsefinder_texts
from values import of_record

OWNS = of("sparsefinder", "differences")
PERCENTS = (80, 90)
BUCKETS = ("sim_reformer", "kmeans")  # compared at equal numbers of buckets, not at equal sparsity
FEWEST_BUCKETS = 4
ORDER = (("distance", "kmeans"), ("kmeans", "sim_routing"))
LIKE_WINDOW = tuple((m, "sim_window") for m in ("sim_longformer", "sim_bigbird", "quantization"))
OVER_WINDOW = ("distance", "sim_window")
OVER_RANDOM = ("distance", "distance_random")
PAIRS = (*ORDER, *LIKE_WINDOW, OVER_WINDOW, OVER_RANDOM, BUCKETS)
NOT_BEHIND, AS_GOOD = 0.01, 0.03
AS_GOOD_NATS = 0.01
CONSISTENT = 1e-5
MOVED = {
    "online_gold_difference": "nats a token",
    "online_gold_logits": "of the largest logit",  # since 28 November 2026
}
# C6: whose quality follows recall: the paper's predictors and emulations. Controls are none of them, and the oracle and
# random graphs, at both ends, would do most of the correlating.
COMPARED = ("distance", "kmeans", "quantization", "sim_routing", "sim_reformer", "sim_bigbird")
COMPARED += ("sim_longformer", "sim_window")
# Of a stratum of sparsity so many methods at least, and their correlation.
FEWEST_METHODS, CORRELATED = 5, 0.7
CLAIMS = {
    "c1": "what holds the gold graph gives the teacher's own logits, within 0.00001 of the largest, and its loss, within 0.00001 nats a token",
    "c2": "recall: distance ≥ k-means ≥ the emulated Routing",
    "c3": "the emulated Longformer and BigBird, and quantization, are as good as a window, within 0.03",
    "c4": "distance with a window finds more than a window alone, at 90 %",
    "c5": "the emulated Reformer finds more and leaves out less than k-means, from 4 buckets on",
    "c6": "quality follows recall: Spearman's correlation within a sparsity above 0.7",
    "c7": "at the gold sparsity distance keeps the teacher's quality, within 0.01 nats",
    "c8": "distance finds more with a learned map than with a random one",
}
PASS, FAIL = 1, 0
WORDS = {PASS: "**pass**", FAIL: "**fail**", None: "inconclusive"}
BY_BUCKETS = re.compile(r"(recall|sparsity)\.b(\d+)")


class Outcome(NamedTuple):
    result: int | None  # PASS, FAIL or None: inconclusive
    why: str
    values: dict  # {what is subtracted and where: Value} that it goes by


def kinds(records):
    """Kinds of teachers with differences, in the records' order."""
    rows = [row for about in records.of(OWNS) for row in records.rows(about.name)]
    return list(dict.fromkeys(row.rpartition(".")[0] for row in rows))


def teachers(records, kind):
    """Names of the teachers of a kind that were swept, as s_lm.1 of s_lm."""
    named = re.compile(re.escape(kind) + r"\.(\d+)\b.*")
    return sorted(
        {
            f"{kind}.{found[1]}"
            for about in records.of(of("sparsefinder"))
            for row in records.rows(about.name)
            if (found := named.fullmatch(row))
        }
    )


def difference(records, kind, pair, metric):
    """Value of one less the other; None if it is not recorded."""
    one, other = pair
    for about in records.of(OWNS):
        record = records.get(about.name, f"{kind}.{one}", 1, f"{metric}.over_{other}")
        if record:  # its ends are an interval already
            return of_record(record)._replace(low=record["low"], high=record["high"])
    return None


def buckets(records, kind):
    """{B: (difference of recall, of sparsity)} of what is compared at equal buckets."""
    found = {}
    for about in records.of(OWNS):
        for metric in records.of_row(about.name, f"{kind}.{BUCKETS[0]}", 1):
            named = BY_BUCKETS.fullmatch(metric.removesuffix(f".over_{BUCKETS[1]}"))
            if named and int(named[2]) >= FEWEST_BUCKETS:
                found.setdefault(int(named[2]), {})[named[1]] = difference(
                    records, kind, BUCKETS, named[0]
                )
    return {b: (d["recall"], d["sparsity"]) for b, d in sorted(found.items()) if len(d) == 2}


def by(found, passes, fails):
    """All pass, or any fails, or neither; of {label: Value or None}."""
    known = {label: value for label, value in found.items() if value}
    if not found or len(known) < len(found):
        return Outcome(None, "not measured", known)
    if all(map(passes, known.values())):
        return Outcome(PASS, "", known)
    return Outcome(FAIL if any(map(fails, known.values())) else None, "", known)


def consistency(records, kind):
    """C1, by the farthest that a sequence's loss and its logits moved when the model ran with its own gold graphs."""
    moved = {
        f"{MOVED[record['metric']]}, `{record['row']}`": of_record(record)
        for about in records.of(of("sparsefinder"))
        for record in records.history(about.name)
        if record["metric"] in MOVED and record["row"].startswith(f"{kind}.")
    }
    if not moved:
        return Outcome(None, "not measured on a teacher; rows are held bit for bit by tests", {})
    if any(v.value >= CONSISTENT for v in moved.values()):
        return Outcome(FAIL, "", moved)
    lacking = [what for what in MOVED.values() if not any(what in label for label in moved)]
    if lacking:
        return Outcome(None, f"not on record: {', '.join(lacking)}", moved)
    return by(moved, lambda v: v.value < CONSISTENT, lambda v: v.value >= CONSISTENT)


def keeps_quality(records, kind):
    """C7. No run point is just as sparse as the gold graphs: it passes by the sparser neighbour, and fails by the denser."""
    sparser, denser = (
        difference(records, kind, ("distance", "gold"), f"nats_{place}_gold")
        for place in ("at", "before")
    )
    what = "nats a token, `distance` − `gold`"
    known = {f"{what} at the next sparser graphs": sparser, f"{what} at the next denser": denser}
    known = {label: value for label, value in known.items() if value}
    # BLEU stands beside, a random map's too: where both keep it, it tells nothing.
    for method in OVER_RANDOM:
        for teacher in teachers(records, kind):
            texts = sparsefinder_texts.of_teacher(records, teacher).get(method, {})
            if sparsefinder_texts.GOLD in texts:
                label = f"BLEU (does not decide), `{method}` − full attention at the gold sparsity"
                known[label] = texts[sparsefinder_texts.GOLD]
    if not sparser:
        return Outcome(None, "not measured", known)
    if sparser.high < AS_GOOD_NATS:
        return Outcome(PASS, "", known)
    failed = denser and denser.low > AS_GOOD_NATS
    return Outcome(FAIL if failed else None, "", known)


def in_words(values):
    """recall, `a` − `b`: at 80 % +0.087 [+0.083, +0.091], at 90 % ...: what is subtracted once."""
    places = {}
    for label, v in values.items():
        subtracted, _, place = label.partition(" at ")
        number = f"{v.value:+.3f} [{v.low:+.3f}, {v.high:+.3f}]"
        places.setdefault(subtracted, []).append(f"at {place} {number}" if place else number)
    return "; ".join(f"{subtracted}: {', '.join(each)}" for subtracted, each in places.items())


def verdicts(records, kind):
    """{claim: Outcome}."""

    def at(pairs, percents=PERCENTS):
        return {
            f"recall, `{one}` − `{other}` at {s} %": difference(
                records, kind, (one, other), f"recall_at_{s}"
            )
            for one, other in pairs
            for s in percents
        }

    def above(v):
        return v.low > 0

    def below(v):
        return v.high < 0

    found = {"c1": consistency(records, kind)}
    found["c6"] = by(
        {"correlation": difference(records, kind, ("all", "gold"), "rank_correlation")},
        lambda v: v.low > CORRELATED,
        lambda v: v.high < CORRELATED,
    )
    found["c7"] = keeps_quality(records, kind)
    found["c2"] = by(at(ORDER), lambda v: v.value >= 0 and v.low > -NOT_BEHIND, below)
    found["c3"] = by(
        at(LIKE_WINDOW),
        lambda v: v.low >= -AS_GOOD and v.high <= AS_GOOD,
        lambda v: v.low > AS_GOOD or v.high < -AS_GOOD,
    )
    found["c4"] = by(at([OVER_WINDOW], PERCENTS[-1:]), above, below)
    # More recall, less sparsity: the latter is turned round, so that both are to lie above 0.
    shown, turned = {}, {}
    for count, (recall, sparsity) in buckets(records, kind).items():
        ours, theirs = (f"`{method}`" for method in BUCKETS)
        names = [f"{what}, {ours} − {theirs} at {count} buckets" for what in ("recall", "sparsity")]
        shown |= dict(zip(names, (recall, sparsity)))
        less = sparsity._replace(value=-sparsity.value, low=-sparsity.high, high=-sparsity.low)
        turned |= dict(zip(names, (recall, less)))
    found["c5"] = by(turned, above, below)._replace(values=shown)
    found["c8"] = by(at([OVER_RANDOM]), above, below)
    return {claim: found[claim] for claim in CLAIMS}


def numbers(records):
    """{id: 1 or 0} of what is decided, for each kind of teacher."""
    found = {}
    for kind in kinds(records):
        for claim, verdict in verdicts(records, kind).items():
            if verdict.result is not None:
                value = min(verdict.values.values(), key=lambda v: v.low)
                result = float(verdict.result)
                found[f"sparsefinder.claims.{kind}.{claim}"] = value._replace(
                    value=result, low=result, high=result, unit="1"
                )
    return found | of_all_kinds(found, kinds(records))


def of_all_kinds(decided, known):
    """{id: Value} of what holds for teachers of every kind, or fails for one; what is neither has no id."""
    found = {}
    for claim in CLAIMS:
        each = [decided.get(f"sparsefinder.claims.{kind}.{claim}") for kind in known]
        failed = [value for value in each if value and value.value == FAIL]
        if failed or (each and None not in each):
            found[f"sparsefinder.claims.{claim}"] = (failed or each)[0]
    return found


def lines(records):
    """Of the report; nothing without differences."""
    found = []
    for kind in kinds(records):
        found += [f"### Claims, teachers `{kind}`", ""]
        known = teachers(records, kind)
        if len(known) == 1:
            found += [
                f"Of one teacher, `{known[0]}`: verdicts are about it, and intervals over sequences.",
                "",
            ]
        found += header("claim", "verdict", "differences", are_numbers=False)
        for claim, verdict in verdicts(records, kind).items():
            said = in_words(verdict.values)
            words = WORDS[verdict.result]
            found.append(line(f"{claim.upper()}: {CLAIMS[claim]}", words, said or verdict.why))
        found.append("")
    return found
