// oneDNN matrix products built once per shape and thread, then only run.
#include "kernels/onednn/matmul.h"

#include <map>
#include <memory>
#include <unordered_map>

namespace scaling::onednn {
namespace {

using dnnl::memory;

/// A thread's; products whose shapes change all the time start again.
constexpr std::size_t kMostPlans = 1024;

/// A primitive with its memory handles, so that a call only exchanges four pointers.
struct Plan {
  dnnl::matmul primitive;
  memory source, weights, bias, destination;
  std::unordered_map<int, memory> arguments;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// Null if there is no implementation.
std::unique_ptr<Plan> make_plan(const Product& p) {
  using Type = memory::data_type;
  const Type type = p.half ? Type::bf16 : Type::f32;
  const memory::dims weight_strides =
      p.weights_transposed ? memory::dims{1, p.k} : memory::dims{p.n, 1};
  const memory::dims source_strides =
      p.source_transposed ? memory::dims{1, p.source_stride} : memory::dims{p.source_stride, 1};
  const memory::desc source({p.m, p.k}, type, source_strides);
  const memory::desc weights({p.k, p.n}, type, weight_strides);
  const memory::desc bias({1, p.n}, Type::f32, memory::dims{p.n, 1});
  const memory::desc destination({p.m, p.n}, Type::f32, memory::dims{p.destination_stride, 1});

  dnnl::post_ops after;
  if (p.accumulate) after.append_sum(1.0f);
  if (p.relu) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  const auto operation = p.bias ? dnnl::matmul::desc(source, weights, bias, destination)
                                : dnnl::matmul::desc(source, weights, destination);
  const dnnl::matmul::primitive_desc description(operation, attributes, engine(), true);
  if (!description) return nullptr;

  auto plan = std::make_unique<Plan>();
  plan->primitive = dnnl::matmul(description);
  plan->source = memory(source, engine(), nullptr);
  plan->weights = memory(weights, engine(), nullptr);
  plan->destination = memory(destination, engine(), nullptr);
  plan->arguments = {{DNNL_ARG_SRC, plan->source},
                     {DNNL_ARG_WEIGHTS, plan->weights},
                     {DNNL_ARG_DST, plan->destination}};
  if (p.bias) {
    plan->bias = memory(bias, engine(), nullptr);
    plan->arguments.emplace(DNNL_ARG_BIAS, plan->bias);
  }
  return plan;
}

}  // namespace

bool run(const Product& product, const void* source, const void* weights, const float* bias,
         float* destination) {
  thread_local dnnl::stream stream(engine());
  thread_local std::map<Product, std::unique_ptr<Plan>> plans;
  auto found = plans.find(product);
  if (found == plans.end()) {
    if (plans.size() == kMostPlans) plans.clear();
    found = plans.emplace(product, make_plan(product)).first;
  }
  Plan* plan = found->second.get();
  if (!plan) return false;
  // The library's handles are not const, but it writes to the destination alone.
  plan->source.set_data_handle(const_cast<void*>(source));
  plan->weights.set_data_handle(const_cast<void*>(weights));
  plan->destination.set_data_handle(destination);
  if (product.bias) plan->bias.set_data_handle(const_cast<float*>(bias));
  plan->primitive.execute(stream, plan->arguments);
  stream.wait();
  return true;
}

}  // namespace scaling::onednn
