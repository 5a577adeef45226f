"""Times one training step of the dense decoder-only model in eager PyTorch and prints one JSON object.

The model is ours (pre-norm, ReLU, trained positions, biases everywhere, no dropout), as a user would write it, with
the query, key and value weights in one matrix. A step is: forward, cross-entropy, backward, update. Works with
PyTorch 1.13 and later; where a version offers several ways to write the attention or the optimiser, each is tried for a
few steps and the fastest one is measured. Example:

    python3 train_step.py --d_model 256 --d_ff 1024 --n_heads 4 --layers 4 --vocab_size 256 --batch 16 --length 128
"""

import argparse
import json
import os
import statistics
import sys
import time

FLOOR_OF_SCALE = 1e-3  # Adafactor: least RMS that a parameter counts as
CLIP = 1.0  # Adafactor: largest RMS of an update
EPSILON = 1e-16


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value, text in (
        ("d_model", 256, "width of the residual stream"),
        ("d_ff", 1024, "feed-forward neurons"),
        ("n_heads", 4, "attention heads"),
        ("layers", 4, "blocks"),
        ("vocab_size", 256, "tokens in the vocabulary"),
        ("batch", 16, "examples in a step"),
        ("length", 128, "positions of an example"),
        ("threads", 0, "of the library, and cores that the process is bound to; 0: all it may use"),
        ("steps", 30, "that are timed"),
        ("warmup", 5, "steps before them"),
        ("trial", 5, "steps that each way is tried for, if there are several"),
        ("seed", 1, "of weights and batches"),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{text} ({value})")
    parser.add_argument("--optimizer", choices=("adafactor", "adam"), default="adafactor")
    parser.add_argument(
        "--learning_rate", type=float, default=0.01, help="(0.01; 0.001 suits adam)"
    )
    parser.add_argument(
        "--way", help="measure this one only; a wrong name lists those of this version"
    )
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    args.threads = args.threads or cores
    for name in (
        "d_model",
        "d_ff",
        "n_heads",
        "layers",
        "vocab_size",
        "batch",
        "length",
        "threads",
        "steps",
        "trial",
    ):
        if getattr(args, name) < 1:
            sys.exit(f"--{name} {getattr(args, name)}: give a number of at least 1")
    if args.d_model % args.n_heads:
        sys.exit(
            f"--d_model {args.d_model} is not divisible by --n_heads {args.n_heads}; change one of the two"
        )
    if args.threads > cores:
        sys.exit(f"--threads {args.threads}: this process may use 1 to {cores} threads")
    return args


def make_model(args, torch, attend):
    """An nn.Module: ids (batch, length) -> logits (batch, length, vocab_size)."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            d = args.d_model
            self.norm1, self.norm2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, args.d_ff), nn.Linear(args.d_ff, d)

        def forward(self, x):
            examples, length, d = x.shape
            heads = (examples, length, args.n_heads, d // args.n_heads)
            q, k, v = (
                part.view(heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(d, dim=-1)
            )
            x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(examples, length, d))
            return x + self.down(functional.relu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(args.vocab_size, args.d_model)
            self.positions = nn.Parameter(torch.randn(args.length, args.d_model) * 0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
            self.norm = nn.LayerNorm(args.d_model, eps=1e-6)
            self.loss = nn.Linear(args.d_model, args.vocab_size)

        def forward(self, ids):
            x = self.embedding(ids) + self.positions[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.loss(self.norm(x))

    return Model()


def attentions(args, torch):
    """name -> function of q, k, v, each (batch, heads, length, d_head); causal."""
    mask = torch.ones(args.length, args.length, dtype=torch.bool).triu(1)
    scale = (args.d_model // args.n_heads) ** -0.5

    def plain(q, k, v):
        logits = (q * scale) @ k.transpose(-2, -1)
        return logits.masked_fill(mask, -1e9).softmax(-1) @ v

    ways = {"plain": plain}
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if fused is not None:
        ways["sdpa"] = lambda q, k, v: fused(q, k, v, is_causal=True)
    return ways


class Adafactor:
    """The paper's rule: factored second moments, parameter scaling, clipping, no momentum."""

    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.step_number = 0
        self.state = []
        for p in self.parameters:
            if p.dim() < 2:
                self.state.append((p.new_zeros(p.shape),))
            else:
                self.state.append(
                    (p.new_zeros(p.shape[:-1]), p.new_zeros(p.shape[:-2] + p.shape[-1:]))
                )

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        self.step_number += 1
        rho = 1 - (self.step_number + 1) ** -0.8
        for p, state in zip(self.parameters, self.state):
            g = p.grad
            squared = g * g
            if p.dim() < 2:
                state[0].mul_(rho).add_(squared, alpha=1 - rho)
                y = g * (state[0] + EPSILON).rsqrt()
            else:
                rows, cols = state
                rows.mul_(rho).add_(squared.mean(-1), alpha=1 - rho)
                cols.mul_(rho).add_(squared.mean(-2), alpha=1 - rho)
                row_factor = (rows.mean(-1, keepdim=True) / (rows + EPSILON)).sqrt()
                y = g * row_factor.unsqueeze(-1) * (cols + EPSILON).rsqrt().unsqueeze(-2)
            # The norms stay tensors: reading them here would be one more pass through the interpreter.
            clip = (y.norm() / y.numel() ** 0.5 / CLIP).clamp_(min=1.0)
            scale = (p.norm() / p.numel() ** 0.5).clamp_(min=FLOOR_OF_SCALE)
            p.sub_(y.mul_(self.learning_rate * scale / clip))


def optimizers(args, torch):
    """name -> function that makes an optimiser of parameters."""
    if args.optimizer == "adafactor":
        return {"": lambda parameters: Adafactor(parameters, args.learning_rate)}
    import inspect

    known = inspect.signature(torch.optim.Adam.__init__).parameters
    ways = {}
    for option in ("foreach", "fused"):
        if option in known:
            ways[option] = lambda parameters, option=option: torch.optim.Adam(
                parameters, lr=args.learning_rate, betas=(0.9, 0.98), eps=1e-9, **{option: True}
            )
    ways["loop"] = lambda parameters: torch.optim.Adam(
        parameters,
        lr=args.learning_rate,
        betas=(0.9, 0.98),
        eps=1e-9,
        **({"foreach": False} if "foreach" in known else {}),
    )
    return ways


class Run:
    """A model that trains on one batch after another of random ids."""

    def __init__(self, args, torch, attend, make_optimizer):
        self.torch, self.args = torch, args
        torch.manual_seed(args.seed)
        self.model = make_model(args, torch, attend)
        self.optimizer = make_optimizer(self.model.parameters())
        self.losses = []

    def step(self):
        """Seconds of one step."""
        torch, args = self.torch, self.args
        target = torch.randint(1, args.vocab_size, (args.batch, args.length))
        ids = torch.nn.functional.pad(target, (1, 0))[
            :, :-1
        ]  # what the decoder reads: shifted right by one 0
        start = time.perf_counter()
        self.optimizer.zero_grad()
        logits = self.model(ids)
        loss = torch.nn.functional.cross_entropy(
            logits.view(-1, args.vocab_size), target.reshape(-1)
        )
        loss.backward()
        with torch.no_grad():
            self.optimizer.step()
        seconds = time.perf_counter() - start
        self.losses.append(float(loss))
        return seconds


def quartiles(values):
    """25 %, 50 % and 75 % of at least one value."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def main():
    args = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    try:
        import torch
    except ImportError:
        print(
            json.dumps(
                {
                    "status": "skipped",
                    "note": "no package torch here; install it with pip or python3-torch",
                }
            )
        )
        return
    torch.set_num_threads(args.threads)

    ways = {}
    for attention, attend in attentions(args, torch).items():
        for optimizer, make_optimizer in optimizers(args, torch).items():
            ways["+".join(part for part in (attention, optimizer) if part)] = (
                attend,
                make_optimizer,
            )
    if args.way:
        if args.way not in ways:
            sys.exit(f"no way '{args.way}'; those of this version: {', '.join(ways)}")
        ways = {args.way: ways[args.way]}
    tried = {}
    for name, way in ways.items() if len(ways) > 1 else ():
        try:
            run = Run(args, torch, *way)
            run.step()
            tried[name] = statistics.median(run.step() for _ in range(args.trial))
        except (
            RuntimeError,
            NotImplementedError,
        ) as error:  # a way that this version has, but not on CPUs
            print(f"  {name}: {error}", file=sys.stderr)
            continue
        print(f"  {name}: {tried[name]:.4f} s a step", file=sys.stderr)
    name = min(tried, key=tried.get) if tried else next(iter(ways))

    run = Run(args, torch, *ways[name])
    for _ in range(args.warmup):
        run.step()
    low, median, high = quartiles([run.step() for _ in range(args.steps)])
    finite = all(loss == loss and abs(loss) != float("inf") for loss in run.losses)
    print(
        json.dumps(
            {
                "status": "ok" if finite else "untrusted",
                "value": median,
                "unit": "s",
                "low": low,
                "high": high,
                "repeats": args.steps,
                "tokens_per_s": args.batch * args.length / median,
                "way": name,
                "versions": f"pytorch {torch.__version__}",
                "threads": args.threads,
                "parameters": sum(p.numel() for p in run.model.parameters()),
                "loss_first": run.losses[0],
                "loss_last": run.losses[-1],
                "note": "" if finite else "the loss is not finite",
                "config": {
                    key: value for key, value in vars(args).items() if key not in ("way", "threads")
                },
            }
        )
    )


if __name__ == "__main__":
    main()
