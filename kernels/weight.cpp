// Names of weight types, read back from text.
#include "kernels/weight.h"

#include "kernels/check.h"

namespace scaling {

WeightType parse_weight_type(const std::string& name) {
  for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
    if (name == name_of(type)) return type;
  }
  throw UserError("weight type '" + name + "' is unknown; the known ones are f32 and bf16");
}

}  // namespace scaling
