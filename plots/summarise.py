"""Writes summary.json, the headline figures of a results folder under fixed ids."""

import json

import records as rec
import sections


def figures(records):
    """{id: Value}: all threads, then `threads1.`, then what has one thread count only."""
    found = {}
    ordered = sorted(sections.of(records), key=lambda pair: pair[0].place)
    for threads, prefix in ((records.all_threads(), ""), (1, "threads1.")):
        for section, own in ordered:
            found |= {
                prefix + name: value
                for name, value in section.numbers_at(records, own, threads).items()
            }
    for section, own in ordered:
        found |= section.numbers(records, own)
    return found


def summary(records):
    """{id: {"value", "unit", "spread", "status", "commit"}}."""
    return {
        name: {
            "value": _rounded(v.value),
            "unit": v.unit,
            "spread": _rounded(v.spread),
            "status": v.status,
            "commit": v.commit,
        }
        for name, v in figures(records).items()
    }


def _rounded(number):
    return float(f"{number:.6g}")


def main():
    arguments = rec.parse_arguments(__doc__)
    records = rec.Records(arguments.results)
    found = summary(records)
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items()]
    path = arguments.results / "summary.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for message in records.damaged:
        print(f"damaged record left out: {message}")
    print(f"{len(found)} figures in {path}")


if __name__ == "__main__":
    main()
