// The dense block by oneDNN's matmul, with bias, ReLU and residual fused into the product.
#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "experiments/peers/libraries/dense_block.h"

namespace peers {
namespace {

using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream& stream() {
  static dnnl::stream one(engine());
  return one;
}

/// The library's matrix product without a primitive, on weights as given: it asks no queue.
class Sgemm : public Product {
 public:
  explicit Sgemm(const Array& w)
      : rows_(w.rows), cols_(w.cols), held_(sizeof(float) * w.rows * w.cols) {
    std::copy_n(w.values, w.rows * w.cols, held_.as<float>());
  }

  void run(const float* x, const After& after, float* y) override {
    dnnl::sgemm('N', 'T', 1, rows_, cols_, 1, x, cols_, held_.as<const float>(), cols_,
                after.add ? 1 : 0, y, rows_);
    finish(after, rows_, y);
  }

 private:
  memory::dim rows_, cols_;
  Memory held_;
};

class Matmul : public Product {
 public:
  Matmul(const Array& w, memory::data_type type, memory::format_tag tag)
      : rows_(w.rows), cols_(w.cols), type_(type), tag_(tag) {
    // Whatever follows the product, weights have one layout: that of the product alone.
    const memory::desc layout = described(nullptr).weights_desc();
    held_ = std::make_unique<Memory>(layout.get_size());
    weights_ = memory(layout, engine(), held_->as<void>());
    memory given({{cols_, rows_}, memory::data_type::f32, memory::format_tag::ba}, engine(),
                 const_cast<float*>(w.values));
    dnnl::reorder(given, weights_).execute(stream(), given, weights_);
    stream().wait();
    if (type == memory::data_type::bf16) half_.resize(cols_);
  }

  void run(const float* x, const After& after, float* y) override {
    if (!plan_) make_plan(after);
    void* source = const_cast<float*>(x);
    if (!half_.empty()) {
      for (std::int64_t i = 0; i < cols_; ++i) half_[i] = to_bf16(x[i]);
      source = half_.data();
    }
    arguments_.at(DNNL_ARG_SRC).set_data_handle(source);
    arguments_.at(DNNL_ARG_BIAS).set_data_handle(const_cast<float*>(after.bias));
    arguments_.at(DNNL_ARG_DST).set_data_handle(y);
    plan_.execute(stream(), arguments_);
    stream().wait();
  }

 private:
  dnnl::matmul::primitive_desc described(const After* after) const {
    const memory::desc source({1, cols_}, type_, memory::format_tag::ab);
    const memory::desc destination({1, rows_}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc bias({1, rows_}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc weights =
        weights_ ? weights_.get_desc() : memory::desc({cols_, rows_}, type_, tag_);
    dnnl::post_ops operations;
    if (after && after->add) operations.append_sum(1.0f);
    if (after && after->relu) operations.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(operations);
    return {engine(), source, weights, bias, destination, attributes};
  }

  void make_plan(const After& after) {
    const auto description = described(&after);
    plan_ = dnnl::matmul(description);
    arguments_ = {
        {DNNL_ARG_SRC, memory(description.src_desc(), engine(), nullptr)},
        {DNNL_ARG_WEIGHTS, weights_},
        {DNNL_ARG_BIAS,
         memory({{1, rows_}, memory::data_type::f32, memory::format_tag::ab}, engine(), nullptr)},
        {DNNL_ARG_DST, memory(description.dst_desc(), engine(), nullptr)}};
  }

  memory::dim rows_, cols_;
  memory::data_type type_;
  memory::format_tag tag_;
  std::unique_ptr<Memory> held_;
  memory weights_;
  dnnl::matmul plan_;  // made at the first call, whose fused operations are all others' too
  std::unordered_map<int, memory> arguments_;
  std::vector<std::uint16_t> half_;
};

}  // namespace

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

std::string ways(const std::string& type) {
  if (type == "f32") return "prepacked,out_in,in_out,sgemm";
  return type == "bf16" ? "prepacked,out_in,in_out" : "";
}

/// Its threads are as many as the process has processors.
std::unique_ptr<Peer> make(const Sizes& sizes, const std::string& type, const std::string& way,
                           int /*threads*/) {
  if (way == "sgemm") {
    return dense_peer(sizes, [](const Array& w) { return std::make_unique<Sgemm>(w); });
  }
  const auto held = type == "bf16" ? memory::data_type::bf16 : memory::data_type::f32;
  const auto tag = way == "prepacked" ? memory::format_tag::any
                   : way == "out_in"  ? memory::format_tag::ba
                                      : memory::format_tag::ab;
  return dense_peer(sizes, [=](const Array& w) { return std::make_unique<Matmul>(w, held, tag); });
}

}  // namespace peers
