// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/output.h"

#include "lib/imp/base64.h"

namespace fluxdat::sandbox {

bool is_text(std::string_view bytes)
{
    for (std::size_t i = 0; i < bytes.size();) {
        auto lead = static_cast<unsigned char>(bytes[i]);
        if (lead == 0)
            return false;
        std::size_t length = lead < 0x80             ? 1
                             : (lead & 0xe0) == 0xc0 ? 2
                             : (lead & 0xf0) == 0xe0 ? 3
                             : (lead & 0xf8) == 0xf0 ? 4
                                                     : 0;
        if (length == 0 || i + length > bytes.size())
            return false;
        std::uint32_t point = length == 1 ? lead : lead & (0xffu >> (length + 1));
        for (std::size_t j = 1; j < length; j++) {
            auto next = static_cast<unsigned char>(bytes[i + j]);
            if ((next & 0xc0) != 0x80)
                return false;
            point = point << 6 | (next & 0x3f);
        }
        // Overlong forms, surrogates, beyond Unicode.
        constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (point < least[length] || (point >= 0xd800 && point <= 0xdfff)
            || point > 0x10ffff)
            return false;
        i += length;
    }
    return true;
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
