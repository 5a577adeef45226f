// The dense block as a graph of ggml, whole: a token is one graph through all blocks, as llama.cpp
// runs them.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <vector>

#include "experiments/peers/libraries/peer.h"

namespace peers {
namespace {

constexpr float kEpsilon = 1e-6f;
constexpr std::size_t kTensorsOfBlock = 96;

const std::map<std::string, ggml_type>& types() {
  static const std::map<std::string, ggml_type> all = {{"f32", GGML_TYPE_F32},
                                                       {"bf16", GGML_TYPE_BF16},
                                                       {"q8_0", GGML_TYPE_Q8_0},
                                                       {"q4_0", GGML_TYPE_Q4_0}};
  return all;
}

struct FreeContext {
  void operator()(ggml_context* context) const { ggml_free(context); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;

/// Holds tensors' descriptions, no values.
Context make_context(std::size_t tensors, std::size_t more = 0) {
  return Context(ggml_init({tensors * ggml_tensor_overhead() + more, nullptr, true}));
}

/// Layouts beside the plain one in which the processor's own kernels want weights.
std::vector<ggml_backend_buffer_type_t> own_layouts() {
  auto* device = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
  auto* get =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
  std::vector<ggml_backend_buffer_type_t> found;
  for (auto* each = get ? get(device) : nullptr; each && *each; ++each) found.push_back(*each);
  return found;
}

/// Whether a product reads weights of this type and shape from a layout; asked as llama.cpp does,
/// of a tensor that lies in an empty buffer of it.
bool is_read_from(ggml_backend_buffer_type_t layout, ggml_type type, std::int64_t rows,
                  std::int64_t cols) {
  const Context context = make_context(4);
  ggml_tensor* w = ggml_new_tensor_2d(context.get(), type, cols, rows);
  ggml_tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, cols);
  ggml_tensor* y = ggml_mul_mat(context.get(), w, x);
  w->buffer = ggml_backend_buft_alloc_buffer(layout, 0);
  const bool read =
      ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0), y);
  ggml_backend_buffer_free(w->buffer);
  return read;
}

class GgmlPeer : public Peer {
 public:
  GgmlPeer(const Sizes& sizes, ggml_type type, bool own_layout, int threads)
      : sizes_(sizes),
        type_(type),
        layouts_(own_layout ? own_layouts() : std::vector<ggml_backend_buffer_type_t>()),
        backend_(ggml_backend_cpu_init()) {
    ggml_backend_cpu_set_n_threads(backend_, threads);
  }

  ~GgmlPeer() override {
    ggml_gallocr_free(activations_);
    for (auto* buffer : buffers_) ggml_backend_buffer_free(buffer);
    ggml_backend_free(backend_);
  }

  void set(std::size_t block, const std::string& name, const Array& array) override {
    if (block == blocks_.size()) {
      blocks_.emplace_back();
      contexts_.push_back(make_context(kTensorsOfBlock));
    }
    ggml_context* context = contexts_[block].get();
    static const char* const caches[] = {"k", "v", "cross_k", "cross_v"};
    if (std::find(std::begin(caches), std::end(caches), name) != std::end(caches)) {
      std::vector<float> turned = by_position(array.values);
      ggml_tensor* cache =
          ggml_new_tensor_2d(context, GGML_TYPE_F32, sizes_.d_model, sizes_.length);
      place(cache, ggml_backend_cpu_buffer_type(), turned.data());
      blocks_[block][name] = cache;
    } else if (array.cols == 1) {
      ggml_tensor* vector = ggml_new_tensor_1d(context, GGML_TYPE_F32, array.rows);
      place(vector, ggml_backend_cpu_buffer_type(), array.values);
      blocks_[block][name] = vector;
    } else {
      ggml_tensor* matrix = ggml_new_tensor_2d(context, type_, array.cols, array.rows);
      std::vector<char> narrow(ggml_nbytes(matrix));
      ggml_quantize_chunk(type_, array.values, narrow.data(), 0, array.rows, array.cols, nullptr);
      place(matrix, layout_for(array), narrow.data());
      blocks_[block][name] = matrix;
    }
  }

  void step(const float* x, std::int64_t t, float* y) override {
    if (!graph_) make_graph();
    const std::int64_t slot = t % sizes_.length;
    ggml_backend_tensor_set(input_, x, 0, ggml_nbytes(input_));
    ggml_backend_tensor_set(slot_, &slot, 0, sizeof slot);
    if (ggml_backend_graph_compute(backend_, graph_) != GGML_STATUS_SUCCESS) {
      throw std::runtime_error("ggml could not compute its graph");
    }
    ggml_backend_tensor_get(output_, y, 0, ggml_nbytes(output_));
  }

 private:
  using Block = std::map<std::string, ggml_tensor*>;

  /// (heads, length, d_head) as (length, heads, d_head): a token's keys are one row.
  std::vector<float> by_position(const float* cache) const {
    const std::size_t d = sizes_.d_head(), heads = sizes_.n_heads, length = sizes_.length;
    std::vector<float> turned(d * heads * length);
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t l = 0; l < length; ++l) {
        std::copy_n(cache + (head * length + l) * d, d, turned.data() + (l * heads + head) * d);
      }
    }
    return turned;
  }

  ggml_backend_buffer_type_t layout_for(const Array& w) const {
    for (auto* layout : layouts_) {
      if (is_read_from(layout, type_, w.rows, w.cols)) return layout;
    }
    return ggml_backend_cpu_buffer_type();
  }

  /// Gives a tensor memory and values.
  void place(ggml_tensor* tensor, ggml_backend_buffer_type_t layout, const void* values) {
    auto* buffer =
        ggml_backend_buft_alloc_buffer(layout, ggml_backend_buft_get_alloc_size(layout, tensor));
    if (!buffer) throw std::bad_alloc();
    buffers_.push_back(buffer);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
    ggml_backend_tensor_set(tensor, values, 0, ggml_nbytes(tensor));
  }

  ggml_tensor* norm(const Block& block, const std::string& name, ggml_tensor* x) const {
    ggml_context* c = graph_context_.get();
    return ggml_add(c, ggml_mul(c, ggml_norm(c, x, kEpsilon), block.at(name + "_scale")),
                    block.at(name + "_bias"));
  }

  ggml_tensor* multiply(const Block& block, const std::string& name, ggml_tensor* x) const {
    ggml_context* c = graph_context_.get();
    return ggml_add(c, ggml_mul_mat(c, block.at(name), x), block.at(name + "_bias"));
  }

  /// A cache, or what set_rows made of it, as (d_head, length, heads).
  ggml_tensor* by_head(ggml_tensor* cache) const {
    const std::int64_t d = sizes_.d_head();
    return ggml_view_3d(graph_context_.get(), cache, d, sizes_.length, sizes_.n_heads, cache->nb[1],
                        d * sizeof(float), 0);
  }

  ggml_tensor* attend(ggml_tensor* q, ggml_tensor* keys, ggml_tensor* values) const {
    ggml_context* c = graph_context_.get();
    const std::int64_t d = sizes_.d_head();
    q = ggml_reshape_3d(c, q, d, 1, sizes_.n_heads);
    ggml_tensor* out = ggml_flash_attn_ext(c, q, by_head(keys), by_head(values), nullptr,
                                           1 / std::sqrt(float(d)), 0, 0);
    return ggml_reshape_1d(c, out, sizes_.d_model);
  }

  ggml_tensor* run(const Block& block, ggml_tensor* x) const {
    ggml_context* c = graph_context_.get();
    const std::int64_t d = sizes_.d_model;
    ggml_tensor* qkv = multiply(block, "qkv", norm(block, "norm1", x));
    const auto part = [&](int which) {
      return ggml_view_2d(c, qkv, d, 1, d * sizeof(float), which * d * sizeof(float));
    };
    ggml_tensor* keys = ggml_set_rows(c, block.at("k"), part(1), slot_);
    ggml_tensor* values = ggml_set_rows(c, block.at("v"), part(2), slot_);
    x = ggml_add(c, x, multiply(block, "out", attend(part(0), keys, values)));

    ggml_tensor* q = multiply(block, "cross_q", norm(block, "norm2", x));
    ggml_tensor* o = attend(q, block.at("cross_k"), block.at("cross_v"));
    x = ggml_add(c, x, multiply(block, "cross_out", o));

    ggml_tensor* hidden = ggml_relu(c, multiply(block, "w1", norm(block, "norm3", x)));
    return ggml_add(c, x, multiply(block, "w2", hidden));
  }

  void make_graph() {
    const std::size_t nodes = kTensorsOfBlock * (blocks_.size() + 1);
    graph_context_ = make_context(nodes, ggml_graph_overhead_custom(nodes, false));
    ggml_context* c = graph_context_.get();
    input_ = ggml_new_tensor_1d(c, GGML_TYPE_F32, sizes_.d_model);
    slot_ = ggml_new_tensor_1d(c, GGML_TYPE_I64, 1);
    ggml_set_input(input_);
    ggml_set_input(slot_);
    output_ = input_;
    for (const Block& block : blocks_) output_ = run(block, output_);
    ggml_set_output(output_);
    graph_ = ggml_new_graph_custom(c, nodes, false);
    ggml_build_forward_expand(graph_, output_);
    activations_ = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    if (!ggml_gallocr_alloc_graph(activations_, graph_)) throw std::bad_alloc();
  }

  Sizes sizes_;
  ggml_type type_;
  std::vector<ggml_backend_buffer_type_t> layouts_;
  ggml_backend_t backend_;
  std::vector<Block> blocks_;
  std::vector<Context> contexts_;
  std::vector<ggml_backend_buffer_t> buffers_;
  Context graph_context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_gallocr_t activations_ = nullptr;
  ggml_tensor *input_ = nullptr, *slot_ = nullptr, *output_ = nullptr;
};

}  // namespace

std::string version() {
  // Of what it tells, only refusals.
  ggml_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_WARN && level <= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  return std::string("ggml ") + ggml_version();
}

std::string ways(const std::string& type) {
  if (!types().count(type)) return "";
  constexpr std::int64_t kAny = 1024;
  for (auto* layout : own_layouts()) {
    if (is_read_from(layout, types().at(type), kAny, kAny)) return "plain,repacked";
  }
  return "plain";
}

std::unique_ptr<Peer> make(const Sizes& sizes, const std::string& type, const std::string& way,
                           int threads) {
  return std::make_unique<GgmlPeer>(sizes, types().at(type), way == "repacked", threads);
}

}  // namespace peers
