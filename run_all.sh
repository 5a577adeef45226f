#!/usr/bin/env bash
# The whole study in one command: install, build, measure every experiment, draw, report.
set -euo pipefail -f  # -f: filters in the plan are no file patterns
from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'EOF'
./run_all.sh [options]       tables, sweeps, perplexity curves (Figure 1, mini, one seed), plots and report of this
                             machine: under an hour on two cores, besides installing and building
  --full          also Figures 3, 5, 7 and the mixture of experts at mini size, the Terraformer (Tables 6 and 8,
                  reversibility, long sequences), published shapes, bf16 kernel sets and single layers; an hour more
  --quick         under ten minutes on two cores: fewer rows, fewer repeats, no curves
  --smoke         about a minute: tiny shapes into a temporary folder, to see that everything runs
  --peers         also PyTorch and JAX on the same block, and PyTorch's training step beside ours (installs them under
                  build/peers, about 7 GB): 15 minutes more, 4 with --quick
  --corpus PATH   text to train on: a file, a folder or a quoted glob; default: generated
  --results DIR   folder of records; default results/local/<machine>
  --publish       records into results/published; only from a clean git tree
  --plan          print the plan and stop
Interrupted (Ctrl-C) or failed, the same command goes on where it stopped.
EOF
}

mode=default peers=no publish=no plan_only=no results="" corpus=""
while (( $# )); do
  case $1 in
    --quick) mode=quick ;;
    --full) mode=full ;;
    --smoke) mode=smoke ;;
    --peers) peers=yes ;;
    --publish) publish=yes ;;
    --plan) plan_only=yes ;;
    --corpus) corpus=${2:?"--corpus needs a file, folder or glob"}; shift ;;
    --results) results=${2:?"--results needs a folder"}; shift ;;
    --help|-h) usage; exit 0 ;;
    *) echo "run_all.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
# Paths are the caller's.
[[ -z $results || $results == /* ]] || results=$(realpath -m "$from/$results")
[[ -z $corpus || $corpus == generated || $corpus == /* ]] || corpus=$from/$corpus
if [[ $results == "$PWD" || ( $results == "$PWD"/* && $results != "$PWD"/results/* ) ]]; then
  echo "run_all.sh: --results '$results' lies in the checkout, whose records would then count as edits; take a folder below results/ or elsewhere" >&2
  exit 2
fi
command_line=./run_all.sh
[[ $mode == default ]] || command_line+=" --$mode"
[[ $peers == no ]] || command_line+=" --peers"
[[ $publish == no ]] || command_line+=" --publish"
[[ -z $corpus ]] || command_line+=" --corpus $(printf %q "$corpus")"
[[ -z $results ]] || command_line+=" --results $results"

# Curves come after most of an hour: a name that fits nothing is said now.
if [[ -n $corpus && $corpus != generated ]]; then
  [[ $mode != quick ]] || { echo "run_all.sh: --quick trains no curves; drop it or --corpus" >&2; exit 2; }
  [[ -e $corpus ]] || compgen -G "$corpus" >/dev/null ||
    { echo "run_all.sh: --corpus '$corpus' is no file, folder or glob that matches any" >&2; exit 2; }
fi

bin=build/release/experiments
python=/usr/bin/python3
[[ -x $python ]] || python=python3
export PYTHONDONTWRITEBYTECODE=1

# Debian 12's OpenBLAS takes AMD's processors with AVX-512 for a Haswell: its products reach half their rate.
if grep -q AuthenticAMD /proc/cpuinfo && grep -qw avx512f /proc/cpuinfo; then
  export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SKYLAKEX}
fi

# Every kernel on weights that no cache holds; what has no weights exists only on warm rows.
cold_kernels='/(1|16)/real_time$|^(layer_norm|softmax|argmax)/'
# The plan: one line an experiment, "minutes at most; name; arguments". perplexity reads configs/training/<name>.cfg where
# there is one, else decode_time configs/decode/<name>.cfg.
case $mode in
  default|full) plan=(
    "0.6;ceilings;"
    "2.5;table1_800m;--time-budget 10"
    "3.5;table1_800m_bf16;--time-budget 10"
    "4.5;table1_17b;--time-budget 10"
    "10;table1_17b_bf16;--time-budget 10 --rows baseline.bf16,ff.bf16,qkv_cross.bf16,ff_qkv_cross.bf16,ff_qkv.bf16,ff_qkv_cross_loss4.bf16,ff_qkv_cross_loss4_dot.bf16"
    "3;table2;--time-budget 6"
    "1.5;table7;--time-budget 8"
    "4.5;width_sweep;--time-budget 3"
    "3;context_sweep;--time-budget 2"
    "3;batch_sweep;--time-budget 2"
    "3.5;peers_800m;--time-budget 5"
    "4;peers_17b;--time-budget 5 --threads all"
    "6;bench_kernels;--threads $(nproc) --benchmark_min_time=0.05 --benchmark_filter=$cold_kernels"
    "10;fig1_mini;--seeds 1")
    # Curves that Figure 1 has are taken from there, not trained again.
    [[ $mode == default ]] || plan+=(
    "3;fig3_mini;--seeds 1"
    "10;fig5_mini;--seeds 1"
    "4;fig7_mini;--seeds 1"
    "2;moe_mini;--seeds 1"
    "5;table8_mini;--seeds 1"
    "3;table6_17b;--time-budget 10"
    "9;table6_17b_bf16;--time-budget 10"
    "2.5;table8;--time-budget 10"
    "3.5;table8_bf16;--time-budget 10"
    "7;reversibility;"
    "8;long_sequence;"
    # Last, so that an interrupted run has the tables and figures.
    "1;kernel_sets;--time-budget 6"
    "2.5;shapes;--time-budget 4"
    "3;bench_layers;--benchmark_min_time=0.02 --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true") ;;
  quick) plan=(
    "0.3;ceilings;--quick"
    "1.5;table1_800m;--quick --threads all"
    "2;table1_17b_bf16;--quick --threads all --rows baseline.bf16,ff_qkv_cross.bf16"
    "0.7;table2;--quick --threads all --rows baseline,n64,n128"
    "0.5;table7;--quick --threads all --rows baseline,s4"
    "0.8;width_sweep;--quick --threads all --time-budget 2 --rows dense_d512,sparse_d512,dense_d1024,sparse_d1024,dense_d2048,sparse_d2048,dense_d4096,sparse_d4096"
    "0.4;context_sweep;--quick --threads all --time-budget 2 --rows baseline_c16,ff_qkv_c16,baseline_c1024,ff_qkv_c1024,baseline_c8192,ff_qkv_c8192"
    "0.4;batch_sweep;--quick --threads all --time-budget 2 --rows baseline_b1,ff_qkv_b1,baseline_b4,ff_qkv_b4,baseline_b16,ff_qkv_b16"
    "0.5;peers_800m;--quick --threads all --time-budget 2"
    "0.7;bench_kernels;--benchmark_min_time=0.01 --threads $(nproc) --benchmark_filter=800m.*/simd/[a-z0-9]+/1/real_time") ;;
  smoke) plan=(
    "0.2;tiny_smoke;--quick --time-budget 0.2"
    "0.1;ceilings;--quick --threads 1"
    "0.2;bench_kernels;--benchmark_min_time=0.001 --benchmark_filter=800m_low_rank/simd/[a-z0-9]+/1/real_time"
    "0.2;bench_layers;--benchmark_min_time=0.001 --benchmark_filter=low_rank/f32/t1/"
    "0.2;tiny_curve;--steps 20 --rows dense,ff_qkv"
    "0.2;reversibility;--quick --d_model 32 --d_ff 64 --max_length 32 --n_heads 2 --vocab_size 32 --depths 2,4 --batches 1 --rows dense_plain,dense_reversible"
    "0.2;long_sequence;--quick --repeats 1 --d_model 16 --n_heads 2 --lsh_chunk 4 --lengths 16,32 --recall-length 64 --recall-chunks 4,8 --recall-rounds 1,2") ;;
esac
if [[ $peers == yes ]]; then
  [[ $mode == smoke ]] && { echo "run_all.sh: --peers goes with --quick or alone, not with --smoke" >&2; exit 2; }
  if [[ $mode == quick ]]; then plan+=(
    "3;peers_python;--seconds 2 --rows 800m.pytorch,800m.jax,800m.jax.ff_qkv_cross"
    "1;peers_training;--rounds 2 --steps 10")
  else plan+=(
    "12;peers_python;--seconds 10"
    "3;peers_training;--rounds 5 --steps 20"); fi
fi

minutes_of() { printf '%s\n' "$@" | awk -F';' '{sum += $1} END {printf "%.1f", sum + 0}'; }

if [[ $publish == yes ]]; then
  [[ -z $results && $mode != smoke ]] || { echo "run_all.sh: --publish has its own folder; drop --results and --smoke" >&2; exit 2; }
  changed=$(git status --porcelain -- . ':!results' ':!plots') || { echo "error: --publish needs a git checkout" >&2; exit 1; }
  if [[ -n $changed ]]; then
    printf 'error: --publish needs a clean tree, so that a commit names what was measured; changed:\n%s\n' "$changed" >&2
    exit 1
  fi
  results=results/published
fi

echo "== Plan: $(minutes_of "${plan[@]}") minutes at most, after installing and building; what is recorded is not repeated"
for line in "${plan[@]}"; do IFS=';' read -r minutes name _ <<<"$line"; printf '  %4s min  %s\n' "$minutes" "$name"; done
echo "  then summary.json, figures and report.md"
[[ $plan_only == yes ]] && exit 0

stopped() {
  printf '\nStopped. Finished records stay; go on with:\n  %s\n' "$command_line" >&2
  exit 130
}
trap stopped INT TERM

echo "== Install"
./install_dependencies.sh $([[ $peers == no ]] || echo --peers)
echo "== Build"
./build.sh release

if [[ $mode == smoke ]]; then
  results=$(mktemp -d)
  trap 'rm -rf "$results"' EXIT
elif [[ -z $results ]]; then
  # The drivers know the machine's own folder.
  results=$($bin/decode_time --where)
fi
mkdir -p "$results"

# Python peers live in a virtual environment of their own, made once.
peers_home=${SCALING_PEERS:-build/peers}
install_peers() {
  local home=$peers_home needed_gb=10
  if [[ ! -e $home/ready ]] || ! cmp -s $home/ready experiments/peers/requirements.txt; then
    mkdir -p "$home"
    local free_gb=$(( $(df --output=avail -k "$home" | tail -n 1) / 1048576 ))
    if (( free_gb < needed_gb )); then
      echo "error: the peers need $needed_gb GB of disk below $home, $free_gb GB are free; free some, or set SCALING_PEERS to a folder elsewhere" >&2
      return 1
    fi
    echo "installing PyTorch and JAX into $home"
    $python -m venv "$home" && "$home/bin/pip" install --quiet --requirement experiments/peers/requirements.txt || return 1
    cp experiments/peers/requirements.txt "$home/ready"
  fi
}

run_peers() {
  install_peers || return 1
  "$peers_home/bin/python" experiments/peers/run_peers.py --results "$results" "$@"
}

# Written at its end only: kept as a benchmark is.
run_training_peers() {
  install_peers || return 1
  local out=$results/peers_training.jsonl made_by
  local rows=(--python pytorch="$peers_home/bin/python")
  # Debian 12's own, where the package python3-torch is installed.
  if [[ $(/usr/bin/python3 -c 'import torch; print(torch.__version__)' 2>/dev/null) == 1.13* ]]; then
    rows+=(--python pytorch_1_13=/usr/bin/python3)
  fi
  made_by="$(cat "$bin/bench_training" "$peers_home/ready" experiments/peers/*.py | sha256sum | cut -c1-16) ${rows[*]} $*"
  if is_made_by "$out" "$made_by"; then return; fi
  $python experiments/peers/compare_training.py --results "$results" "${rows[@]}" "$@" || return
  echo "$made_by" >"$out.made_by"
}

# Whether this program with these arguments has made the file; says so.
is_made_by() {
  [[ -s $1 && -f $1.made_by && $(<"$1.made_by") == "$2" ]] && echo "already measured"
}

# Google Benchmark writes one file at its end; it is kept if the same program made it with the same arguments.
run_benchmark() {
  local name=$1 out=$2; shift 2
  local made_by; made_by="$(sha256sum <"$bin/$name" | cut -c1-16) $*"
  if is_made_by "$out" "$made_by"; then return; fi
  local rc=0
  rm -f "$out.partial"
  "$bin/$name" "$@" --benchmark_out="$out.partial" --benchmark_out_format=json \
    --benchmark_context=commit="$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" || rc=$?
  # 1: whole, but some cases differ from ref; the report names them.
  if (( rc > 1 )) || [[ ! -s $out.partial ]]; then return $(( rc ? rc : 1 )); fi
  rm -f "$out.made_by"
  mv "$out.partial" "$out"
  if (( rc == 0 )); then echo "$made_by" >"$out.made_by"; fi
  return $rc
}

run_curves() {
  local name=$1; shift
  [[ -z $corpus ]] || set -- "$@" --corpus "$corpus"
  $bin/perplexity --config "experiments/configs/training/$name.cfg" --results "$results" "$@"
}

run_one() {
  local name=$1; shift
  case $name in
    ceilings) $bin/ceilings --results "$results" "$@" ;;
    bench_kernels) run_benchmark "$name" "$results/kernels.json" "$@" ;;
    bench_layers) run_benchmark "$name" "$results/layers.json" "$@" ;;
    peers_python) run_peers "$@" ;;
    peers_training) run_training_peers "$@" ;;
    reversibility) $bin/$name --config "experiments/configs/stacks/$name.cfg" --results "$results" "$@" ;;
    long_sequence) $bin/$name --config "experiments/configs/attention/$name.cfg" --results "$results" "$@" ;;
    *)
      if [[ -e experiments/configs/training/$name.cfg ]]; then run_curves "$name" "$@"
      else $bin/decode_time --config "experiments/configs/decode/$name.cfg" --results "$results" "$@"; fi ;;
  esac
}

failed=()
started=$SECONDS
planned_done=0
for i in "${!plan[@]}"; do
  IFS=';' read -r minutes name arguments <<<"${plan[i]}"
  # Estimates are for two cores and full repetition; scaled by how they have fared so far.
  left=$(awk -v rest="$(minutes_of "${plan[@]:i}")" -v planned="$planned_done" -v spent=$(( SECONDS - started )) \
    'BEGIN {scale = planned > 1 ? spent / 60 / planned : 1; printf "%.0f", rest * scale + 0.5}')
  printf '\n== [%d/%d] %s: %s min at most, about %s min left in all\n' $(( i + 1 )) ${#plan[@]} "$name" "$minutes" "$left"
  status=0
  run_one "$name" $arguments || status=$?
  (( status == 130 || status == 143 )) && stopped
  (( status == 0 )) || { failed+=("$name"); echo "$name ended with status $status; going on with the others" >&2; }
  planned_done=$(awk -v a="$planned_done" -v b="$minutes" 'BEGIN {print a + b}')
done

echo
echo "== Report"
$python plots/summarise.py --results "$results"
$python plots/draw.py --results "$results"
$python plots/make_report.py --results "$results"
[[ $publish == no ]] || $python plots/readme_table.py
printf 'measured in %d min %d s; report: %s\n' $(( (SECONDS - started) / 60 )) $(( (SECONDS - started) % 60 )) "$results/report.md"
if (( ${#failed[@]} )); then
  echo "not complete: ${failed[*]}; the same command repeats only those" >&2
  exit 1
fi
