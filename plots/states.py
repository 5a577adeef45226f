"""A folder's records as they are in one state of the machine's memory, sittings pooled.

The closing record of a decode holds its decodes, that of a peer its batches, which are alike. From them every time, floor and efficiency is made
again, of those decodes alone that were kept and beside which the reads of the fixed GiB say that memory was in
that state. A number is the median of its sittings' medians, of however few decodes; its interval goes from the lowest
lower end to the highest upper end of theirs. Sittings that were in the state too shortly for an interval of their own
have one together.
"""

import functools
import math
import statistics

import evidence
import records as rec
from values import ceiling, combine, lacks_blocks, of_record

CLOSING = "token_ms"
CLOSING_BLOCK = "block_ms"  # of peers, which time a block alone
KINDS = ("token", "block")
# Columns of the decodes: times, and under each decode's own ceilings its two floors.
COLUMNS = tuple(
    f"{kind}_{what}" for kind in KINDS for what in ("ms", "floor_ms", "overlap_floor_ms")
)
EFFICIENCIES = {
    f"{kind}_{what}efficiency": (f"{kind}_{what}floor_ms", f"{kind}_ms")
    for kind in KINDS
    for what in ("", "overlap_")
}
FEWEST = 6  # rounds: fewer have no 95 % interval
# Not trusted is a number of which an interval goes farther to a side than this share of it, in any
# sitting, or which sittings have farther apart than twice that.
CERTAIN = 0.05
MAX_EFFICIENCY = 1.03  # above it, something is measured or counted wrongly


@functools.cache
def of_machine(records, threads):
    """The States at so many threads, from the read beside every decode of the folder, or None."""
    found = reads(records, threads)
    return evidence.states_of(found) if found else None


def reads(records, threads):
    """GB/s: of the fixed read beside every decode of the folder, the rejected ones' too."""
    return [decode.read for decode in _decodes(records, threads)]


def closings(records, experiment, row, threads):
    """[record that holds a row's decodes] of each sitting."""
    return records.sittings_of(experiment, row, threads, CLOSING) or records.sittings_of(
        experiment, row, threads, CLOSING_BLOCK
    )


def _decodes(records, threads):
    """Those of a folder at so many threads that a read stands beside."""
    return [
        decode
        for experiment, row, count in records.places()
        if count == threads
        for closing in closings(records, experiment, row, threads)
        for decode in evidence.decodes_of(closing)
        if decode.read
    ]


def taken(records, threads):
    """({sitting: kept decodes beside which somebody else had of memory}, how many were kept in all)."""
    known = of_machine(records, threads)
    found, count = {}, 0
    for experiment, row, at in records.places():
        for closing in closings(records, experiment, row, at) if at == threads and known else ():
            kept = _kept(closing)
            count += len(kept)
            if lost := sum(map(known.is_taken, kept)):
                found[closing["sitting"]] = found.get(closing["sitting"], 0) + lost
    return found, count


@functools.cache
def views(records, threads):
    """[(records of one state, suffix of its ids)], the fast or only one first.

    A folder whose records hold no decodes has one view, itself.
    """
    states = of_machine(records, threads)
    if states is None:
        return [(records, "")]
    names = sorted(states.centres)  # fast before slow
    return [
        (InState(records, threads, states, name), "@slow" if name == "slow" else "")
        for name in names
    ]


def in_no_state(records, threads):
    """{row: GB/s} of peers without decodes beside which memory was read as beside no decode: no view has them."""
    known = of_machine(records, threads)
    found = {}
    for experiment, row, count in records.places():
        if count != threads or known is None:
            continue
        for record in records.sittings_of(experiment, row, threads, CLOSING_BLOCK):
            rate = ceiling(record, "read_gbps")
            if rate and rec.is_one_window(record) and not known.of_reading(rate):
                found[row] = rate
    return found


def barrier_us(view):
    """Median of a meeting of the threads beside the decodes of a view's state; None if they never met."""
    met = [
        decode.values["barrier_us"]
        for decode in _decodes(view, view.threads_here)
        if view.states.of(decode) == view.state and "barrier_us" in decode.values
    ]
    return statistics.median(met) if met else None


def name_of(view):
    """The state of a view; empty of records without states."""
    return getattr(view, "state", "")


def read_rate(view):
    """GB/s: the fixed reads' middle in a view's state; None of records without states."""
    return view.states.centres[view.state] if name_of(view) else None


def words_of(view):
    """Of headings: which of two states a view is of; empty of the only one."""
    return f", {view.state} state" if name_of(view) in ("fast", "slow") else ""


def at_threads(view, threads):
    """2 threads, fast memory: what the axis of a figure says of its times."""
    state = f", {view.state} memory" if name_of(view) in ("fast", "slow") else ""
    return f"{threads} threads{state}"


class InState:
    """As rec.Records, of one state at one number of threads.

    Whatever does not depend on the state, or does not know it, is in the first view alone.
    """

    def __init__(self, records, threads, states, state):
        self._records, self.threads_here, self.states, self.state = records, threads, states, state
        self.is_first = state != "slow"
        self.gaps = dict(records.gaps)

    def __getattr__(self, name):
        return getattr(self._records, name)

    @functools.cache  # noqa: B019  (as long-lived as the program)
    def of_row(self, experiment, row, threads):
        found = self._records.of_row(experiment, row, threads)
        if threads != self.threads_here:
            return found
        if any(map(evidence.has_reads, closings(self._records, experiment, row, threads))):
            return self._restated(experiment, row, found)
        return self._of_readings(experiment, row, found)

    def get(self, experiment, row, threads, metric):
        return self.of_row(experiment, row, threads).get(metric)

    @functools.cache  # noqa: B019  (as long-lived as the program)
    def paired(self, experiment, above, below, threads, metric):
        """Value of above / below, sitting by sitting; None if one of the rows has no decodes.

        Of a sitting it is the median over the rounds of both rows. Rows that took no turns there
        have the ratio of that sitting's medians, with the interval of both.
        """
        if threads != self.threads_here or metric not in COLUMNS:
            return None
        each, apart = [], []
        below_by = {r["sitting"]: r for r in closings(self._records, experiment, below, threads)}
        for theirs in closings(self._records, experiment, above, threads):
            ours = below_by.get(theirs["sitting"])
            if ours is None:
                continue
            found = evidence.ratios_of(_kept(theirs), _kept(ours), metric, self._state())
            if found:
                each.append(found)
            elif ratio := evidence.apart(
                *(evidence.of_rounds(self._rounds(one, metric)) for one in (theirs, ours))
            ):
                apart.append(ratio)
        records = [self.get(experiment, row, threads, metric) for row in (above, below)]
        if not (each or apart) or not all(records):
            return None
        pooled = pool(each, apart)
        status = rec.worst(
            ["untrusted"] * pooled["doubtful"]
            + [r["status"] for r in records if r["status"] != "untrusted" or r.get("beats_floor")]
        )
        value = combine(
            pooled["value"], "x", pooled["low"], pooled["high"], [of_record(r) for r in records]
        )
        return value._replace(status=status, sittings=len(each) + len(apart))

    @functools.cache  # noqa: B019  (as long-lived as the program)
    def limit(self, experiment, above, below, threads, metric):
        """Value of the ratio of two rows' floors, both at this state's read rate; None if they are not known there.

        That rate is what the fixed reads gave, whatever of a row lies in caches; the peak is each row's own, since
        rows compute by different instructions.
        """
        if threads != self.threads_here or metric not in COLUMNS:
            return None
        found = [self.get(experiment, row, threads, metric) for row in (above, below)]
        floors = []
        for row, record in zip((above, below), found):
            peak = record and ceiling(record, "fma_gflops")
            held = closings(self._records, experiment, row, threads)
            floors.append(peak and _floor_at(held, metric, read_rate(self), peak))
        if not all(floors):
            return None
        value = floors[0] / floors[1]
        # However unsure the floors at ceilings of their own were: these are counts at given rates.
        inputs = [of_record(r)._replace(status=_status(r, metric)) for r in found]
        return combine(value, "x", value, value, inputs)

    def _state(self):
        return self.states, self.state

    def _is_here(self, record):
        """Whether a record without decodes belongs to this view: it was in the state of the reading beside it."""
        rate = ceiling(record, "read_gbps")
        if not rate:
            return self.is_first
        if rec.is_one_window(record):
            return self.states.of_reading(rate) == self.state
        return self.states.name(rate) == self.state

    def _of_readings(self, experiment, row, found):
        """{metric: record} of a row without decodes: each sitting's by its own reading, pooled only then."""
        here = {}
        for metric in found:
            each = self._records.sittings_of(experiment, row, self.threads_here, metric)
            each = [record for record in each if self._is_here(record)]
            if each:
                here[metric] = self._of_windows(each)
        return here

    def _of_windows(self, each):
        """One record of all sittings'; of windows beside a reading it is of this state."""
        record = rec.pooled(each)
        reads = [ceiling(r, "read_gbps") for r in each]
        if not all(reads) or not all(map(rec.is_one_window, each)):
            return record
        middle, (low, high) = record["value"], rec.interval(record)
        values = [r["value"] for r in each]
        is_doubtful = (
            max(high - middle, middle - low) > CERTAIN * middle
            or max(values) - min(values) > 2 * CERTAIN * middle
            or any("unstable" in (r.get("note") or "") for r in each)
        )
        return record | {
            "status": "untrusted" if is_doubtful else record["status"],
            "beats_floor": record["status"] == "untrusted",  # the peers' own word for it
            "state": self.state,
            "windows": len(each),
            "ceilings": record["ceilings"] | {"state_read_gbps": statistics.median(reads)},
        }

    def _restated(self, experiment, row, found):
        """{metric: record} with times, floors and efficiencies of this state."""
        here = dict(found)
        ceilings = self._ceilings(experiment, row)
        held = closings(self._records, experiment, row, self.threads_here)
        for metric in (*COLUMNS, *EFFICIENCIES):
            here.pop(metric, None)
            each = [rounds for closing in held if (rounds := self._rounds(closing, metric))]
            if metric in found and each:
                here[metric] = self._record(found[metric], metric, each, ceilings)
        for limit in ("read_gbps", "fma_gflops"):
            if limit in here and limit in ceilings:
                here[limit] = dict(found[limit], value=ceilings[limit])
            elif held:
                here.pop(limit, None)
        for kind in KINDS:
            efficiency = here.get(f"{kind}_efficiency")
            if efficiency and efficiency["value"] > MAX_EFFICIENCY:
                for metric in (*COLUMNS, *EFFICIENCIES):
                    if metric.startswith(kind) and metric in here:
                        here[metric] |= {"status": "untrusted", "beats_floor": True}
        if not {CLOSING, CLOSING_BLOCK} & here.keys():
            self.gaps[experiment, row, self.threads_here] = f"no decode in the {self.state} state"
        return here

    def _rounds(self, closing, metric):
        """[(group, at, value)] of one sitting in this state."""
        kept = _kept(closing)
        if metric in EFFICIENCIES:
            floor, time = EFFICIENCIES[metric]
            kept = [
                d._replace(values=d.values | {metric: d.values[floor] / d.values[time]})
                for d in kept
                if floor in d.values
            ]
        kept = [d for d in kept if metric in d.values]
        return evidence.values_of(kept, metric, self._state())

    def _ceilings(self, experiment, row):
        """Limits and the fixed read beside a row's decodes of this state, {} if it has none."""
        here = [
            decode
            for closing in closings(self._records, experiment, row, self.threads_here)
            for decode in _kept(closing)
            if self.states.of(decode) == self.state
        ]
        found = {
            name: [rate for decode in here if (rate := decode.values.get(name))]
            for name in ("read_gbps", "fma_gflops", "state_read_gbps")
        }
        return {name: statistics.median(rates) for name, rates in found.items() if rates}

    def _record(self, record, metric, each, ceilings):
        pooled = pool(each)
        return dict(
            record,
            value=pooled["value"],
            interval=(pooled["low"], pooled["high"]),
            repeats=sum(map(len, each)),
            status="untrusted" if pooled["doubtful"] else _status(record, metric),
            beats_floor=False,  # what is measured or counted wrongly, however sure it looks
            state=self.state,
            sittings=len(each),
            blocks=pooled["blocks"],
            ceilings=(record.get("ceilings") or {}) | ceilings,
        )


def _floor_at(held, metric, read, peak):
    """ms: a floor at given rates, of a row's closing records; None if these do not say."""
    kind, _, what = metric.partition("_")
    counted = [
        phases for closing in held if (phases := (closing.get("samples") or {}).get("phases"))
    ]
    if counted:
        return evidence.floor_of(counted[-1][kind], what.startswith("overlap"), read, peak)
    decodes = [decode for closing in held for decode in evidence.decodes_of(closing)]
    return evidence.floor_at(decodes, metric, read, peak)


def _kept(closing):
    return [d for d in evidence.decodes_of(closing) if d.values["kept"] and d.read]


def together(each):
    """[Ratio] of [[(group, at, value)]], a sitting's rounds each: of a sitting alone that has enough for an interval, of
    all the others together."""
    long = [rounds for rounds in each if len(rounds) >= FEWEST]
    rest = evidence.of_rounds([one for rounds in each if len(rounds) < FEWEST for one in rounds])
    return [evidence.of_rounds(rounds) for rounds in long] + ([rest] if rest else [])


def pool(each, apart=()):
    """Median of sittings, range of their intervals, and whether to doubt it: one is too wide, or sittings disagree.

    each: [[(group, at, value)]], a sitting's rounds; apart: a Ratio of each sitting that has none. Fewer rounds in all than
    an interval takes have none: its ends are infinite.
    """
    middles = [statistics.median(value for *_, value in rounds) for rounds in each]
    middles += [one.value for one in apart]
    middle, intervals = statistics.median(middles), [*together(each), *apart]
    are_few = sum(one.rounds for one in intervals) < FEWEST
    return {
        "value": middle,
        "low": -math.inf if are_few else min(middle, *(one.low for one in intervals)),
        "high": math.inf if are_few else max(middle, *(one.high for one in intervals)),
        "blocks": min(one.blocks for one in intervals),
        "doubtful": are_few
        or max(middles) - min(middles) > 2 * CERTAIN * middle
        or any(
            max(one.high - one.value, one.value - one.low) > CERTAIN * one.value
            for one in intervals
        ),
    }


def _status(record, metric):
    """What a number is by how it was made, whatever was thought of all its decodes together."""
    if not lacks_blocks(record):
        return "ok"
    return "extrapolated" if metric.startswith("token") else "scaled_down"
