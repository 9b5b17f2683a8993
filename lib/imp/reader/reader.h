// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat-imp-reader: the half of the IMP that parses what comes from outside, without
// any privileges (privsep.h). Input of exec is one JSON object (RFC 15, "Input to the
// IMP"), which comes by one of several readers, chosen by name:
//
//     json     from stdin
//     helper   from the output of the program that FLUX_IMP_EXEC_HELPER names
//     flux     put together from J and R, which the enclosing instance is asked for
//     kv       no JSON at all: an encoded Kv from stdin, passed on (for tests)
//
// A new one is a file here with one function, and a line in main.cpp.
#pragma once

#include "lib/imp/bytes.h"
#include "lib/imp/kv.h"
#include "lib/imp/result.h"
#include "lib/imp/sign.h"

#include <string>
#include <string_view>
#include <vector>

namespace fluxdat::imp::reader {

// Most bytes of an input: a J, and options and R_local beside it.
constexpr std::size_t input_bytes_max = sign_bytes_max + (1u << 20);

// The arguments of exec after the shell.
using Arguments = std::vector<std::string>;

Result<Kv> read_json(const Arguments& arguments);
Result<Kv> read_helper(const Arguments& arguments);
Result<Kv> read_flux_job(const Arguments& arguments);
Result<Kv> read_kv(const Arguments& arguments);

// What all JSON inputs come to: J, options.*, R_local.*. `source` is what messages call
// the text. Fails on what is no JSON, no object, and has no string J.
Result<Kv> from_json(std::string_view text, const std::string& source);

// For from_json(), where the text has options or R_local: adds what they come to. There
// are two programs, for the sake of the many inputs that have neither. What turns ids
// of cores into CPUs takes longer to be loaded (hwloc) than everything else that is
// done to start a job. So the one that the IMP starts is small and static; its
// contain() gives the text to the other one, which it becomes (light.cpp); that one's
// does the work (full.cpp).
Result<> contain(std::string_view text, Kv& out);

// Lets a program that this one becomes have the pipe to the IMP; false if that failed.
bool keep_output();

// Becomes the other program, with the reader `name` and `text` as its stdin; returns
// only when that fails.
Error become_full(const char* name, std::string_view text, const Arguments& arguments);

// Everything from fd up to its end, at most input_bytes_max.
Result<Bytes> read_all(int fd, const std::string& source);

} // namespace fluxdat::imp::reader
