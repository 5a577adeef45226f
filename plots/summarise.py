"""Writes summary.json, the headline figures of a results folder under fixed ids."""

import json

import headline
import records as rec
import sections
import states
from values import exactly, rounded


def figures(records):
    """{id: Value}: all threads, then `threads1.`, then what has one thread count only.

    Ids of the slow state, where there are two, end with @slow.
    """
    found = {}
    ordered = sorted(sections.of(records), key=lambda pair: pair[0].place)
    for threads, prefix in ((records.all_threads(), ""), (1, "threads1.")):
        for view, suffix in states.views(records, threads):
            here = memory(view)
            for section, own in ordered:
                here |= section.numbers_at(view, own, threads)
            here |= headline.trusted(here)
            found |= {f"{prefix}{name}{suffix}": value for name, value in here.items()}
    for section, own in ordered:
        found |= section.numbers(records, own)
    return found | headline.longest(records.sittings)


def memory(view):
    """{id: Value} of a state: what the fixed read and a barrier came to, its share of all decodes."""
    if not states.name_of(view):
        return {}
    barrier = states.barrier_us(view)
    found = {
        "read_gbps": exactly(view.states.centres[view.state], "GB/s"),
        **({} if barrier is None else {"barrier_us": exactly(barrier, "us")}),
        "share": exactly(view.states.shares[view.state], "1"),
    }
    return {
        f"memory.{name}": value._replace(state=view.state, sittings=max(1, len(view.sittings)))
        for name, value in found.items()
    }


def summary(records):
    """{id: {"value", "low", "high", "unit", "state", "sittings", "status", "commit"}}; of what has
    them "sd" over seeds, "seeds" and "tokens", "whose" dense time it stands on, if not ours, and
    "extrapolated", where it is that beside its status; an end that is not known is null."""
    return {name: _entry(value) for name, value in figures(records).items()}


def _entry(v):
    entry = {
        **{end: rounded(getattr(v, end)) for end in ("value", "low", "high")},
        **{field: getattr(v, field) for field in ("unit", "state", "sittings", "status", "commit")},
    }
    more = {"sd": rounded(v.sd), "seeds": v.seeds, "tokens": v.tokens, "whose": v.whose}
    # Where the status says it, nobody needs to hear it twice.
    more["extrapolated"] = v.extrapolated and v.status != "extrapolated"
    return entry | {field: known for field, known in more.items() if known}


def main():
    arguments = rec.parse_arguments(__doc__)
    records = rec.Records(arguments.results)
    found = summary(records)
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items()]
    path = arguments.results / "summary.json"
    rec.write(path, "{\n" + ",\n".join(lines) + "\n}\n")
    for message in records.damaged:
        print(f"damaged record left out: {message}")
    print(f"{len(found)} figures in {path}")


if __name__ == "__main__":
    main()
