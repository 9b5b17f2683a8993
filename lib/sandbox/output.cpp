// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/output.h"

#include "lib/flux/text.h"
#include "lib/imp/base64.h"

namespace fluxdat::sandbox {

bool is_text(std::string_view bytes)
{
    return bytes.find('\0') == bytes.npos && flux::valid_utf8(bytes);
}

void set_data(Json& io, std::string_view bytes)
{
    if (is_text(bytes)) {
        io["data"] = std::string(bytes);
    } else {
        io["encoding"] = "base64";
        io["data"] = imp::base64_encode(bytes);
    }
}

std::string get_data(const Json& io)
{
    auto data = io.find("data");
    if (data == io.end() || !data->is_string())
        return {};
    const auto& text = data->get_ref<const std::string&>();
    auto encoding = io.find("encoding");
    if (encoding == io.end() || *encoding != "base64")
        return text;
    return imp::base64_decode(text).value_or("");
}

void LineBuffer::feed(std::string_view bytes, const Sink& line)
{
    partial_.append(bytes);
    std::string_view rest = partial_;
    while (true) {
        auto newline = rest.find('\n');
        auto size = newline == rest.npos ? rest.size() : newline + 1;
        if (newline == rest.npos && size < line_max)
            break;
        size = std::min(size, line_max);
        line(rest.substr(0, size));
        rest.remove_prefix(size);
    }
    partial_ = std::string(rest);
}

void LineBuffer::flush(const Sink& line)
{
    if (!partial_.empty())
        line(std::exchange(partial_, {}));
}

} // namespace fluxdat::sandbox
