"""A verdict on one of the paper's claims, of speed, memory or perplexity; sections make them."""

from typing import NamedTuple

from report import interval_text
from values import Value

CLOSE = 0.95  # a speed-up counts as reproduced from this share of the paper's on
FAR = 1.1  # and as exceeded where its interval lies above so many times the paper's
NOT_MEASURED = "not measured"
# What measures that which is missing.
RUN, FULL, PEERS = "./run_all.sh", "./run_all.sh --full", "./run_all.sh --peers"


class Verdict(NamedTuple):
    claim: str
    verdict: str
    evidence: str
    command: str = ""  # of a claim that is not measured: what measures it
    place: int = 0  # claims of the whole model come behind those of its parts
    value: Value | None = None  # the contrast that a claim about curves goes by


def missing(claim, command=RUN):
    return Verdict(claim, NOT_MEASURED, "", command)


def factor_text(value):
    marks = "" if value.status == "ok" else f" ({value.status})"
    return f"{value.value:.3g}×{interval_text(value)}{marks}"
