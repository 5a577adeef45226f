// Which alpha a name stands for.
#include "models/layers/attention/normaliser.h"

#include "kernels/check.h"
#include "models/knobs.h"

namespace scaling {

std::unique_ptr<ThresholdNormaliser> make_normaliser(Normaliser kind, double entmax_alpha) {
  switch (kind) {
    case Normaliser::softmax:
      return nullptr;
    case Normaliser::sparsemax:
      return std::make_unique<ThresholdNormaliser>(2);
    case Normaliser::entmax15:
      return std::make_unique<ThresholdNormaliser>(1.5);
    case Normaliser::entmax:
      if (!(entmax_alpha > 1)) {
        throw UserError("entmax_alpha " + print_value(entmax_alpha) +
                        " is not above 1, where alpha-entmax begins; give more, or choose "
                        "normaliser=softmax, its limit at 1");
      }
      return std::make_unique<ThresholdNormaliser>(entmax_alpha);
  }
  SCALING_CHECK(false);
}

}  // namespace scaling
