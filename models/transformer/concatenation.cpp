// Rows copied to where they belong and back.
#include "models/transformer/concatenation.h"

#include "kernels/check.h"

namespace scaling {

void Concatenation::set(const std::vector<std::uint8_t>& seen, std::int64_t examples,
                        std::int64_t target_length) {
  const std::int64_t source_length = std::int64_t(seen.size()) / examples;
  const std::int64_t length = source_length + target_length;
  joint_rows_ = examples * length;
  source_at_.resize(seen.size());
  target_at_.resize(std::size_t(examples * target_length));
  for (std::int64_t example = 0; example < examples; ++example) {
    std::int64_t at = example * length;
    for (std::int64_t s = 0; s < source_length; ++s) {
      const auto row = std::size_t(example * source_length + s);
      source_at_[row] = seen[row] ? at++ : -1;
    }
    for (std::int64_t t = 0; t < target_length; ++t) {
      target_at_[std::size_t(example * target_length + t)] = at++;
    }
  }
}

void Concatenation::join(const Mat& encoded, std::int64_t first, const Mat& target,
                         Mat& joint) const {
  SCALING_CHECK(encoded.rows() == std::int64_t(source_at_.size()));
  SCALING_CHECK(target.rows() == std::int64_t(target_at_.size()));
  strip_backward(target, joint);
  for (std::size_t row = 0; row < source_at_.size(); ++row) {
    if (source_at_[row] < 0) continue;
    joint.row(source_at_[row]) = encoded.row(std::int64_t(row)).segment(first, target.cols());
  }
}

void Concatenation::join_ids(const std::vector<int>& source, const std::vector<int>& target,
                             std::vector<int>& joint) const {
  SCALING_CHECK(source.size() == source_at_.size() && target.size() == target_at_.size());
  joint.assign(std::size_t(joint_rows_), 0);
  for (std::size_t row = 0; row < source.size(); ++row) {
    if (source_at_[row] >= 0) joint[std::size_t(source_at_[row])] = source[row];
  }
  for (std::size_t row = 0; row < target.size(); ++row) {
    joint[std::size_t(target_at_[row])] = target[row];
  }
}

void Concatenation::strip(const Mat& joint, Mat& target) const {
  SCALING_CHECK(joint.rows() == joint_rows_);
  target.resize(std::int64_t(target_at_.size()), joint.cols());
  for (std::size_t row = 0; row < target_at_.size(); ++row) {
    target.row(std::int64_t(row)) = joint.row(target_at_[row]);
  }
}

void Concatenation::strip_backward(const Mat& dtarget, Mat& djoint) const {
  djoint.setZero(joint_rows_, dtarget.cols());
  for (std::size_t row = 0; row < target_at_.size(); ++row) {
    djoint.row(target_at_[row]) = dtarget.row(std::int64_t(row));
  }
}

void Concatenation::join_backward(const Mat& djoint, std::int64_t first, Mat& dencoded,
                                  Mat& dtarget) const {
  strip(djoint, dtarget);
  for (std::size_t row = 0; row < source_at_.size(); ++row) {
    if (source_at_[row] < 0) continue;
    dencoded.row(std::int64_t(row)).segment(first, djoint.cols()) += djoint.row(source_at_[row]);
  }
}

}  // namespace scaling
