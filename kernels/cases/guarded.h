// Memory between guard bytes, at a chosen misalignment.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace scaling {

/// `size` elements, the first `misalign` elements past a 64-byte border. Guards are NaN in every
/// float type, so that what is read from them shows in results, and are poisoned for
/// AddressSanitizer.
template <class T>
class Guarded {
 public:
  Guarded(std::int64_t size, int misalign = 0)
      : size_(size),
        bytes_(std::size_t(size) * sizeof(T)),
        memory_(new unsigned char[bytes_ + 4 * kGuard]) {
    std::memset(memory_.get(), 0xff, bytes_ + 4 * kGuard);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    const std::size_t to_border = (kGuard - address % kGuard) % kGuard;
    offset_ = to_border + kGuard + std::size_t(misalign) * sizeof(T);
    poison();
  }
  ~Guarded() { unpoison(); }
  Guarded(Guarded&&) noexcept = default;
  Guarded& operator=(Guarded&&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_.get() + offset_); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.get() + offset_); }
  std::int64_t size() const { return size_; }
  T& operator[](std::int64_t i) { return data()[i]; }
  const T& operator[](std::int64_t i) const { return data()[i]; }

  bool intact() const {
    unpoison();
    bool whole = true;
    const unsigned char* end = memory_.get() + offset_ + bytes_;
    for (std::size_t i = 0; i < kGuard; ++i) {
      whole = whole && memory_[offset_ - kGuard + i] == 0xff && end[i] == 0xff;
    }
    poison();
    return whole;
  }

 private:
  static constexpr std::size_t kGuard = 64;

  void poison() const {
    ASAN_POISON_MEMORY_REGION(memory_.get() + offset_ - kGuard, kGuard);
    ASAN_POISON_MEMORY_REGION(memory_.get() + offset_ + bytes_, kGuard);
  }
  void unpoison() const {
    if (memory_) ASAN_UNPOISON_MEMORY_REGION(memory_.get(), bytes_ + 4 * kGuard);
  }

  std::int64_t size_;
  std::size_t bytes_;
  std::unique_ptr<unsigned char[]> memory_;
  std::size_t offset_ = 0;
};

}  // namespace scaling
