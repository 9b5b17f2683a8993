// SPDX-License-Identifier: LGPL-3.0-or-later
//
// One fuzzer, for the function that FLUX_DAT_FUZZ_TARGET names, on libFuzzer's engine.
//
// clang 14, which Debian 12 has, cannot compile std::expected of GCC's library, so GCC
// compiles, and only the engine is clang's. GCC tells of each edge by a call
// (-fsanitize-coverage=trace-pc), which the engine does not take; it does take counters
// in a section of this name, so the calls are counted there.
#include "tests/fuzz/targets.h"

#include <cstddef>
#include <cstdint>

namespace {

// Edges are told apart by a hash of where they are; a collision only hides a path.
constexpr std::size_t counters_size = 1u << 16;
__attribute__((section("__libfuzzer_extra_counters"), used))
std::uint8_t counters[counters_size];

} // namespace

extern "C" __attribute__((no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc()
{
    auto at = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    auto& counter = counters[(at * 0x9e3779b97f4a7c15u) >> 48];
    counter = static_cast<std::uint8_t>(counter + 1);
}

// GCC also tells what reals are compared with; the engine has no use for it.
extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    fluxdat::fuzz::FLUX_DAT_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
    return 0;
}
