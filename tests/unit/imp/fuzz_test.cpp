// SPDX-License-Identifier: LGPL-3.0-or-later
// Every seed of the fuzzers once (tests/fuzz/README.md), also where there is no fuzzer.
#include "tests/fuzz/targets.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

void each_seed(const char* name, void (*target)(std::string_view))
{
    std::size_t count = 0;
    auto place = std::filesystem::path(FLUX_DAT_FUZZ_SEEDS) / name;
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
        INFO(entry.path().string());
        std::ifstream file(entry.path(), std::ios::binary);
        std::string bytes(std::istreambuf_iterator<char>(file), {});
        target(bytes);
        count++;
    }
    CHECK(count > 0);
}

} // namespace

TEST_CASE("fuzz: seeds", "[fuzz]")
{
    each_seed("kv", fluxdat::fuzz::kv);
    each_seed("sign", fluxdat::fuzz::sign);
    each_seed("config", fluxdat::fuzz::config);
    each_seed("input", fluxdat::fuzz::input);
    each_seed("grants", fluxdat::fuzz::grants);
}
