// The contract of every kernel: arithmetic on borrowed memory for 1 to kMaxTokens rows of
// activations.
//
// Common rules. Activations are f32, row-major, one row per token, `tokens` rows in [1,
// kMaxTokens]. No pointer may alias another. A Range is a thread's own share of the work; a kernel
// reads and writes nothing outside it. Kernels whose text says "adds" accumulate into their output,
// so that shares over the input may be summed afterwards; all others overwrite. Lengths need not be
// multiples of anything unless said, pointers need no alignment beyond their type's. Sizes are
// trusted (callers check).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ahead.h"
#include "kernels/weight.h"

namespace scaling {

inline constexpr int kMaxTokens = 16;

/// [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// One gathered weight row and the token (row of activations) that asked for it.
struct Selection {
  std::int32_t row;
  std::int32_t token;
};

/// The remembered inputs of a module x length convolution (paper 2.4 and 2.7).
/// frames[token * taps + a] is the frame of length tap a, a = taps-1 being the current position; a
/// frame is channel-major [width][modules + 2 * padding], zero in its padding, so that a shift by
/// one module is a shift by one element.
struct Frames {
  const float* const* frames;
  int taps;              ///< F, the length kernel
  std::int64_t modules;  ///< S
  std::int64_t width;    ///< M, channels of a module
  int padding;           ///< zero modules on either side, at least (module_taps - 1) / 2
};

/// What attention of one head has to look at: of keys and values, (rows, d_head) row-major, those
/// at `positions`, or the first ones. length is in [1, 2^31).
struct HeadMemory {
  const float* keys;
  const float* values;
  std::int64_t length, d_head;
  const std::int32_t* positions = nullptr;  ///< (length), in any order; null: 0, 1, ...

  std::int64_t position(std::int64_t i) const { return positions ? positions[i] : i; }
};

struct KernelSet {
  std::string name;
  std::string description;
  /// Kernels this set implements itself; the others are `simd`'s (or `ref`'s).
  std::vector<std::string> own;
  /// Weight types for which that holds; kernels without weights belong to f32.
  std::vector<WeightType> own_types = {WeightType::f32, WeightType::bf16};
  /// With bf16 weights, kernels of `own` round activations to bf16 before they multiply.
  bool rounds_activations = false;
  bool rounds(WeightType type) const { return rounds_activations && type == WeightType::bf16; }
  /// Whether its dense products lose nothing by being asked for a few rows at a time. Libraries do:
  /// each call has a cost, and some prepare every new shape.
  bool takes_pieces = false;
  /// How weights of a type that only its dense products read are best stored: in rows or in strips.
  /// Sets of libraries take rows alone, the others both.
  Layout dense_f32 = Layout::rows, dense_bf16 = Layout::rows;
  Layout dense_layout(WeightType type) const {
    return type == WeightType::f32 ? dense_f32 : dense_bf16;
  }

  /// y[t][o] = sum_i w(o, i) x[t][i] + bias[o] for o in outputs; relu if asked. w: rows or strips
  /// (out, in). bias may be null. x: (tokens, in), y: (tokens, out).
  void (*dense)(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
                Range outputs, bool relu);

  /// Adds sum_{j in inputs} h[t][j] w(j, c) to y[t][c] for every c. w: rows or strips (in, out).
  /// h: (tokens, in), y: (tokens, out). Reads every weight of `inputs`, zero activation or not.
  void (*dense_transposed)(const WeightView& w, const float* h, int tokens, float* y, Range inputs);

  /// Controller of the sparse feed-forward (paper 1.2), second half, with block
  /// argmax: z[t][j] = sum_l hidden[t][l] w(l, j) + bias[j];  selected[t][b] = argmax_{y < block}
  /// z[t][b*block+y], ties to the lowest index. w: Layout::panels (r, d_ff). logits: scratch of
  /// d_ff floats a thread (only entries of the own blocks are written). selected: (tokens, d_ff /
  /// block). block divides d_ff.
  void (*controller)(const WeightView& w, const float* bias, const float* hidden, int tokens,
                     std::int64_t block, float* logits, std::int32_t* selected, Range blocks);

  /// h[i] = relu(w(s[i].row) . x[s[i].token] + bias[s[i].row]) for i < n. w: Layout::rows (d_ff,
  /// d). bias may be null. Equal neighbouring rows are read from memory once.
  void (*gather_dot)(const WeightView& w, const float* bias, const Selection* s, std::int64_t n,
                     const float* x, float* h);

  /// Adds h[i] * w(s[i].row) to y[s[i].token] for i < n. w: Layout::rows (d_ff, d), y: (tokens, d).
  void (*gather_accumulate)(const WeightView& w, const Selection* s, std::int64_t n, const float* h,
                            float* y);

  /// Multiplicative layer (paper 2.5). Adds
  /// sum_{i in inputs} x[t][i] d(i, s) e(i, m) to y[t][s * M + m] for every s and m in columns.
  /// d: Layout::rows (in, S) with S <= kMaxModules, e: Layout::panels (in, M). columns.begin is a
  /// multiple of kPanel. x: (tokens, in), y: (tokens, S * M). ahead: may be null.
  void (*multiplicative)(const WeightView& d, const WeightView& e, const float* x, int tokens,
                         float* y, Range inputs, Range columns, Ahead* ahead);

  /// Module x length convolution (paper 2.4), weights shared by all modules. With
  /// tap row k = (a * module_taps + c) * width + i, adds
  /// sum_{k in tap_rows} frame_a[i][s + c - (module_taps-1)/2 (in padding)] w(k, o) to y[t][s *
  /// M_out + o] for every s and o in columns. w: Layout::panels (taps * module_taps * width,
  /// M_out). columns.begin is a multiple of kPanel. y: (tokens, S * M_out). ahead: may be null.
  void (*module_convolution)(const WeightView& w, const Frames& frames, int module_taps, int tokens,
                             float* y, Range tap_rows, Range columns, Ahead* ahead);

  /// y[t] = scale * (x[t] - mean) / sqrt(variance + 1e-6) + bias, biased variance (paper 0.1).
  void (*layer_norm)(const float* x, const float* scale, const float* bias, int tokens,
                     std::int64_t d, float* y);

  /// In place: x = exp(x - max) / sum. n >= 1.
  void (*softmax)(float* x, std::int64_t n);

  /// One head of one token: out = softmax(q k^T / sqrt(d_head)) v over the memory's rows. scores:
  /// scratch of `length` floats.
  void (*attend)(const float* q, const HeadMemory& memory, float* scores, float* out);

  /// The same by alpha-entmax (kernels/entmax.h), alpha > 1, in place of softmax. Values whose
  /// probability is zero are not read. scores, survivors: scratch of `length` floats each.
  void (*attend_entmax)(double alpha, const float* q, const HeadMemory& memory, float* scores,
                        float* survivors, float* out);

  /// Index of the largest value, ties to the lowest index. n >= 1.
  std::int64_t (*argmax)(const float* x, std::int64_t n);
};

inline constexpr std::int64_t kMaxModules = 256;

/// The definition: plainest loops, double sums.
const KernelSet& ref_kernels();
/// Portable SIMD (Highway).
const KernelSet& simd_kernels();
/// simd, but products of bf16 weights round activations to bf16 too (the processor's own
/// instruction); null where compiler or processor lacks it.
const KernelSet* bf16_dot_kernels();

/// All sets in this build: ref, simd, bf16_dot where the processor has the instruction, and eigen,
/// openblas, onednn where the library was present.
const std::vector<const KernelSet*>& kernel_sets();
/// Throws UserError that lists the known sets.
const KernelSet& find_kernel_set(const std::string& name);

}  // namespace scaling
