// The two lists of cases. Names of shapes say what a case is for; `kernels_test` and
// `bench_kernels` run them all.
#include "kernels/cases.h"

#include "kernels/cases/makers.h"

namespace scaling {
namespace {

using List = std::vector<Case>;

std::string numbered(std::string text, std::int64_t number) {
  return text.append(std::to_string(number));
}
std::string named(std::string text, Range range) {
  return text.append(std::to_string(range.begin)).append("to").append(std::to_string(range.end));
}

/// Every way of numbers, for kernels whose other settings are fixed.
struct NamedValues {
  const char* name;
  Values values;
};
constexpr NamedValues kEveryValues[] = {{"normal", Values::normal},
                                        {"large", Values::large},
                                        {"tiny", Values::tiny},
                                        {"zeros", Values::zeros},
                                        {"integers", Values::integers}};

void test_dense(List& list) {
  // Every number of tokens, lengths beside vectors and tiles, pointers off every border.
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    const std::int64_t in = 61 + 7 * tokens, out = 5 + 9 * tokens;
    list.push_back(dense_case({"tokens", tokens, Values::normal, tokens % 5}, {in, out}));
    list.push_back(
        dense_transposed_case({"tokens", tokens, Values::normal, tokens % 5}, {in, out}));
  }
  for (const std::int64_t in : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1024, 4099}) {
    const std::string name = numbered("in", in);
    const int tokens = in % 2 ? 1 : 3;
    list.push_back(
        dense_case({name, tokens, Values::normal, 1}, {in, 37, {0, -1}, 1, false, true}));
    list.push_back(dense_transposed_case({name, tokens, Values::normal, 1}, {in, 37}));
    list.push_back(dense_transposed_case(
        {std::string("swapped_").append(name), tokens, Values::normal, 3}, {37, in}));
  }
  // One token: rows around a page of either weight type, as many as streams and a few more or less.
  for (const std::int64_t in : {600, 1023, 1024, 1500, 2047, 2048, 2112}) {
    for (const std::int64_t out : {3, 4, 7, 8, 15, 16, 17, 20, 23, 35}) {
      const std::string name = numbered(numbered("page", in) + "x", out);
      list.push_back(dense_case({name, 1}, {in, out}));
      list.push_back(dense_transposed_case({name, 1}, {out, in}));
    }
    list.push_back(dense_case({numbered("page_from", in), 1}, {in, 60, {5, 58}}));
    list.push_back(dense_transposed_case({numbered("page_from", in), 1}, {60, in, {5, 58}}));
  }
  // Several strips, the last of one column, a few or all; with a bias, and zero where it is less.
  for (const std::int64_t in : {1025, 2048, 3077}) {
    for (const int tokens : {1, 2, 5}) {
      const std::string name = numbered("strips", in);
      list.push_back(
          dense_case({name, tokens, Values::normal, 1}, {in, 19, {2, 18}, 1, true, true}));
      list.push_back(dense_transposed_case({name, tokens, Values::normal, 1}, {19, in, {2, 18}}));
    }
  }
  for (const NamedValues& v : kEveryValues) {
    for (const int tokens : {1, 5}) {
      list.push_back(
          dense_case({v.name, tokens, v.values, 2}, {300, 77, {0, -1}, 1, true, tokens == 5}));
      list.push_back(dense_transposed_case({v.name, tokens, v.values, 2}, {77, 300}));
    }
  }
  for (const Range range :
       {Range{0, 0}, Range{40, 40}, Range{7, 8}, Range{3, 50}, Range{49, 101}}) {
    const std::string name = named("from", range);
    for (const int tokens : {1, 2, 16}) {
      list.push_back(dense_case({name, tokens}, {130, 101, range}));
      list.push_back(dense_transposed_case({name, tokens}, {101, 130, range}));
    }
  }
  list.push_back(dense_case({"slices", 1}, {64, 96, {0, -1}, 3}));
  list.push_back(dense_transposed_case({"slices", 1}, {96, 64, {0, -1}, 3}));
}

void test_controller(List& list) {
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    list.push_back(controller_case({"tokens", tokens, Values::normal, tokens % 3}, {24, 512, 64}));
  }
  // Blocks smaller than a panel, no multiple of it, and one that is the whole layer.
  for (const std::int64_t block : {1, 2, 3, 8, 16, 24, 48, 100, 128, 256}) {
    const std::string name = numbered("block", block);
    list.push_back(controller_case({name, 2, Values::normal, 1}, {17, block * 5, block}));
    list.push_back(controller_case({name + "_only", 1}, {1, block, block}));
    list.push_back(
        controller_case({name + "_ties", 3, Values::integers, 1}, {9, block * 7, block}));
  }
  for (const NamedValues& v : kEveryValues) {
    list.push_back(controller_case({v.name, 3, v.values, 1}, {33, 640, 64}));
  }
  // Panels around a page of either weight type, in groups side by side and in what is left of them.
  for (const std::int64_t rank : {63, 64, 65, 127, 128, 129}) {
    for (const int tokens : {1, 3}) {
      const std::string name = numbered("rank", rank);
      list.push_back(controller_case({name, tokens}, {rank, 1024, 64}));
      list.push_back(controller_case({name + "_from", tokens}, {rank, 1200, 40, {3, 29}}));
    }
  }
  for (const std::int64_t block : {24, 40, 96}) {
    for (const int tokens : {1, 2}) {
      list.push_back(controller_case({numbered("wide_block", block), tokens}, {65, 960, block}));
    }
  }
  for (const Range range : {Range{0, 0}, Range{9, 10}, Range{3, 7}, Range{5, 5}, Range{1, 9}}) {
    const std::string name = named("from", range);
    list.push_back(controller_case({name, 2}, {16, 640, 64, range}));
    list.push_back(controller_case({name + "_odd", 2, Values::normal, 1}, {16, 200, 20, range}));
  }
}

void test_gather(List& list) {
  const auto both = [&list](const Setting& g, const GatherSizes& s) {
    list.push_back(gather_dot_case(g, s));
    list.push_back(gather_accumulate_case(g, s));
  };
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    both({"tokens", tokens, Values::normal, tokens % 5}, {100 + 3 * tokens, 9, 4});
  }
  for (const std::int64_t d : {1, 7, 16, 17, 63, 64, 65, 130, 1024, 2051}) {
    const std::string name = numbered("d", d);
    both({name, 1, Values::normal, 1}, {d, 13, 3, -1, d % 2 == 0});
    both({name, 4, Values::normal, 3}, {d, 13, 3, -1, d % 2 == 1});
  }
  for (const std::int64_t n : {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17}) {
    both({numbered("selections", n), 2}, {70, 16, 9, n});
    both({numbered("selections_of_one", n), 1}, {70, 20, 18, n});
  }
  both({"one_row_for_all", 16}, {70, 16, 1});
  for (const NamedValues& v : kEveryValues) both({v.name, 3, v.values, 1}, {200, 12, 8});
}

void test_multiplicative(List& list) {
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    list.push_back(
        multiplicative_case({"tokens", tokens, Values::normal, tokens % 3}, {50, 8, 48}));
  }
  for (const std::int64_t modules : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 64, 100, 256}) {
    for (const std::int64_t width : {1, 15, 16, 17, 48, 65, 144}) {
      const std::string name = numbered(numbered("s", modules) + "m", width);
      const int tokens = 1 + int(modules * width % 3);
      list.push_back(multiplicative_case({name, tokens, Values::normal, int(width % 4)},
                                         {37, modules, width}));
    }
  }
  for (const NamedValues& v : kEveryValues) {
    list.push_back(multiplicative_case({v.name, 2, v.values, 1}, {90, 12, 40}));
  }
  for (const Range inputs : {Range{0, 0}, Range{11, 12}, Range{5, 77}}) {
    for (const Range columns : {Range{0, -1}, Range{16, 16}, Range{16, 48}, Range{48, 70}}) {
      const std::string name = named(named("in", inputs) + "columns", columns);
      list.push_back(multiplicative_case({name, 2}, {80, 10, 70, inputs, columns}));
      list.push_back(multiplicative_case({name, 1}, {80, 10, 70, inputs, columns}));
    }
  }
  list.push_back(multiplicative_case({"long", 1}, {3001, 6, 33}));
  // Chunks that are not equal, tiles of many modules, and what the next chunk is asked for with.
  for (const int tokens : {1, 3}) {
    list.push_back(multiplicative_case({"chunks", tokens}, {301, 64, 144}));
    list.push_back(multiplicative_case({"chunks_few", tokens}, {301, 16, 64}));
    list.push_back(multiplicative_case({"chunks_wide", tokens}, {301, 3, 1045}));
  }
  // Left sides of so many tokens and modules that fewer rows fit at a time.
  list.push_back(multiplicative_case({"chunks_short", kMaxTokens}, {301, 64, 40}));
  list.push_back(multiplicative_case({"chunks_shortest", kMaxTokens}, {75, 256, 17}));
}

void test_convolution(List& list) {
  list.push_back(convolution_case({"chunks_short", kMaxTokens}, {96, 77, 20, 2, 3}));
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    list.push_back(
        convolution_case({"tokens", tokens, Values::normal, tokens % 3}, {16, 20, 20, 3, 3}));
  }
  for (const std::int64_t modules : {1, 2, 3, 5, 8, 16, 17, 31, 64, 96}) {
    for (const int module_taps : {1, 3, 5}) {
      const std::string name = numbered(numbered("s", modules) + "k", module_taps);
      const int padding = module_taps / 2 + int(modules % 2);
      list.push_back(convolution_case({name, 1 + int(modules % 2), Values::normal, 1},
                                      {modules, 19, 34, 2, module_taps, padding}));
    }
  }
  for (const std::int64_t width : {1, 15, 16, 17, 64, 65, 144}) {
    const std::string name = numbered("m", width);
    list.push_back(convolution_case({name, 1}, {8, width, width, 3, 3}));
    list.push_back(convolution_case({name + "f1", 2}, {8, width, 2 * width, 1, 3}));
  }
  for (const NamedValues& v : kEveryValues) {
    list.push_back(convolution_case({v.name, 2, v.values, 1}, {12, 21, 21, 3, 3}));
  }
  for (const Range rows :
       {Range{0, 0}, Range{30, 31}, Range{13, 62}, Range{62, 90}, Range{1, 89}}) {
    const std::string name = named("from", rows);
    list.push_back(convolution_case({name, 2}, {9, 10, 26, 3, 3, 1, rows}));
    for (const Range columns : {Range{16, 16}, Range{16, 48}, Range{48, 70}}) {
      list.push_back(convolution_case({named(name + "columns", columns), 2},
                                      {9, 10, 70, 3, 3, 1, rows, columns}));
    }
  }
}

struct Alpha {
  const char* name;
  double value;
};
constexpr Alpha kAlphas[] = {
    {"_entmax15", 1.5}, {"_sparsemax", 2}, {"_entmax105", 1.05}, {"_entmax3", 3}};

void test_rowwise(List& list) {
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 127, 1000, 1024, 4097}) {
    const std::string name = numbered("n", n);
    for (const int misalign : {0, 1}) {
      const std::string at = name + (misalign ? "_odd" : "");
      list.push_back(layer_norm_case({at, 1 + int(n % 3), Values::normal, misalign}, n));
      list.push_back(softmax_case({at, 1, Values::normal, misalign}, n));
      list.push_back(argmax_case({at, 1, Values::normal, misalign}, n));
      list.push_back(argmax_case({at + "_ties", 1, Values::integers, misalign}, n));
      list.push_back(attend_case({at, 1, Values::normal, misalign}, 2, n, 64));
      list.push_back(attend_case({at + "_width", 1, Values::normal, misalign}, 3, 21, n));
      for (const Alpha& alpha : kAlphas) {
        const std::string by = at + alpha.name;
        const Setting setting = {by, 1, Values::normal, misalign};
        const Setting of_width = {by + "_width", 1, Values::normal, misalign};
        list.push_back(attend_entmax_case(setting, alpha.value, 2, n, 64, 4));
        list.push_back(attend_entmax_case(of_width, alpha.value, 3, 21, n));
      }
    }
  }
  for (const std::int64_t met : {1, 7, 8, 9, 31, 33, 300}) {
    const std::string name = numbered("scattered", met);
    list.push_back(attend_case({name, 1, Values::normal, 1}, 2, 400, 64, 1, met));
    list.push_back(attend_case({name + "_width", 1}, 3, 400, 21, 1, met));
    for (const Alpha& alpha : kAlphas) {
      list.push_back(attend_entmax_case({name + alpha.name, 1}, alpha.value, 2, 400, 64, 4, met));
    }
  }
  list.push_back(layer_norm_case({"tokens", kMaxTokens}, 96));
  list.push_back(layer_norm_case({"far_mean", 3}, 200, 30));
  for (const NamedValues& v : kEveryValues) {
    list.push_back(layer_norm_case({v.name, 2, v.values, 1}, 77));
    list.push_back(argmax_case({v.name, 1, v.values, 1}, 77));
    if (v.values == Values::large) continue;  // no softmax has logits of 1e10
    list.push_back(softmax_case({v.name, 1, v.values, 1}, 77));
    list.push_back(attend_case({v.name, 1, v.values, 1}, 2, 77, 24));
    list.push_back(attend_entmax_case({v.name, 1, v.values, 1}, 1.5, 2, 77, 24));
    for (const Alpha& alpha : kAlphas) {
      const std::string name = std::string(v.name).append(alpha.name);
      list.push_back(attend_entmax_case({name, 1, v.values, 1}, alpha.value, 2, 777, 24));
    }
  }
  for (const float spread : {30.0f, 200.0f, 1e4f}) {
    const std::string name = numbered("spread", int(spread));
    list.push_back(softmax_case({name, 1}, 300, spread));
    list.push_back(attend_case({name, 1}, 2, 300, 64, spread));
    for (const Alpha& alpha : kAlphas) {
      list.push_back(attend_entmax_case({name + alpha.name, 1}, alpha.value, 2, 300, 64, spread));
    }
  }
}

void paper_dense(List& list, int tokens) {
  const auto dense = [&](const char* shape, std::int64_t in, std::int64_t out, bool relu) {
    list.push_back(dense_case({shape, tokens}, {in, out, {0, -1}, 1, true, relu}));
  };
  dense("800m_d", 1024, 1024, false);
  dense("800m_d_ff", 1024, 4096, true);
  dense("800m_vocab", 1024, 32000, false);
  dense("800m_low_rank", 1024, 64, false);
  dense("17b_low_rank", 9216, 32, false);
  if (tokens == 1) {  // with more, the definition takes minutes to check them
    dense("17b_d", 9216, 9216, false);
    dense("17b_d_ff", 9216, 40960, true);
    dense("17b_vocab", 9216, 32000, false);
    list.push_back(dense_transposed_case({"17b_d_ff", tokens}, {40960, 9216}));
  }
  // Mixture of experts: one of 64 slices, another at every call.
  list.push_back(dense_case({"800m_moe64", tokens}, {1024, 4096, {0, -1}, 64, false, true}));
  list.push_back(dense_transposed_case({"800m_moe64", tokens}, {4096, 1024, {0, -1}, 64}));
  list.push_back(dense_transposed_case({"800m_d_ff", tokens}, {4096, 1024}));
}

void paper_sparse(List& list, int tokens) {
  list.push_back(controller_case({"800m", tokens}, {64, 4096, 64}));
  list.push_back(controller_case({"800m_ff6144", tokens}, {96, 6144, 64}));
  list.push_back(controller_case({"17b", tokens}, {32, 65536, 256}));
  const auto gather = [&](const char* shape, const GatherSizes& s) {
    list.push_back(gather_dot_case({shape, tokens}, s));
    list.push_back(gather_accumulate_case({shape, tokens}, s));
  };
  gather("800m", {1024, 64, 64, -1, false});
  gather("800m_ff6144", {1024, 96, 64, -1, false});
  // As many rows as the model gathers, out of fewer: rotation, not the matrix, keeps them cold.
  gather("17b", {9216, 256, 16, -1, false});

  list.push_back(multiplicative_case({"800m", tokens}, {1024, 16, 64}));
  list.push_back(multiplicative_case({"800m_loss4", tokens}, {1024, 4, 8000}));
  list.push_back(multiplicative_case({"17b", tokens}, {9216, 64, 144}));
  list.push_back(multiplicative_case({"17b_loss4", tokens}, {9216, 4, 8000}));
  list.push_back(convolution_case({"800m_k3", tokens}, {16, 64, 64, 3, 3}));
  list.push_back(convolution_case({"800m_k1", tokens}, {16, 64, 64, 3, 1}));
  list.push_back(convolution_case({"17b_k3", tokens}, {64, 144, 144, 3, 3}));
  list.push_back(convolution_case({"17b_k1", tokens}, {64, 144, 144, 3, 1}));
  list.push_back(layer_norm_case({"800m", tokens}, 1024));
  list.push_back(layer_norm_case({"17b", tokens}, 9216));
}

void paper_one_token(List& list) {
  list.push_back(softmax_case({"512", 1}, 512));
  list.push_back(argmax_case({"vocab", 1}, 32000));
  for (const std::int64_t length : {16, 512, 8192}) {
    list.push_back(attend_case({numbered("800m_", length), 1}, 16, length, 64));
    list.push_back(attend_case({numbered("17b_", length), 1}, 96, length, 96));
    // Logits have a standard deviation of one.
    list.push_back(attend_entmax_case({numbered("800m_", length), 1}, 1.5, 16, length, 64, 3));
  }
  // A tenth of the positions, as attentions choose them that predict who meets.
  list.push_back(attend_case({"800m_tenth_of_32768", 1}, 16, 32768, 64, 1, 3277));
  list.push_back(attend_entmax_case({"800m_tenth_of_32768", 1}, 1.5, 16, 32768, 64, 3, 3277));
  list.push_back(attend_entmax_case({"17b_8192", 1}, 1.5, 96, 8192, 96, 3));
  list.push_back(attend_entmax_case({"800m_8192_sparsemax", 1}, 2, 16, 8192, 64, 3));
  list.push_back(attend_entmax_case({"800m_8192_entmax125", 1}, 1.25, 16, 8192, 64, 3));
}

}  // namespace

const std::vector<Case>& test_cases() {
  static const List list = [] {
    List all;
    test_dense(all);
    test_controller(all);
    test_gather(all);
    test_multiplicative(all);
    test_convolution(all);
    test_rowwise(all);
    return all;
  }();
  return list;
}

const std::vector<Case>& paper_cases() {
  static const List list = [] {
    List all;
    for (const int tokens : {1, kMaxTokens}) {
      paper_dense(all, tokens);
      paper_sparse(all, tokens);
    }
    paper_one_token(all);
    return all;
  }();
  return list;
}

}  // namespace scaling
