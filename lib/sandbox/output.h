// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What processes write, as it goes into messages and eventlogs: in lines, as UTF-8
// where it is that, else as base64. RFC 24, RFC 42 ("I/O Object").
#pragma once

#include "lib/flux/connection.h"

#include <functional>
#include <string>
#include <string_view>

namespace fluxdat::sandbox {

using flux::Json;

// Whether the bytes can be a JSON string as they are. NUL cannot: C programs end there.
bool is_text(std::string_view bytes);

// Puts the bytes into an I/O object: "data", and "encoding" where it is not UTF-8.
void set_data(Json& io, std::string_view bytes);
// The bytes of an I/O object; empty when it has none, or they are no base64.
std::string get_data(const Json& io);

// Cuts a stream into lines. A line longer than line_max comes in pieces.
class LineBuffer
{
public:
    static constexpr std::size_t line_max = 1u << 16; // bytes

    using Sink = std::function<void(std::string_view)>;
    void feed(std::string_view bytes, const Sink& line);
    // What is left, at the stream's end.
    void flush(const Sink& line);

private:
    std::string partial_;
};

} // namespace fluxdat::sandbox
