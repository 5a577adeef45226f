// What functions need that use the processor's bf16 dot product. Highway 1.0.3 has no such
// operation, hence intrinsics.
#pragma once

#if defined(__x86_64__)
#define SCALING_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif
