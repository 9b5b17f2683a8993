// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Bytes as they are read, of a number that is not known before: a buffer that grows
// where it is (realloc(3) moves pages, not bytes) and whose unused part is never
// touched. A J of megabytes is had so with no more memory than it has bytes, where
// std::string would fill and copy.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string_view>

namespace fluxdat::imp {

class Bytes
{
public:
    // Where to read to: some bytes at least.
    std::span<char> room()
    {
        if (capacity_ - size_ < room_min)
            grow();
        return {data_.get() + size_, capacity_ - size_};
    }
    void filled(std::size_t count) { size_ += count; }

    std::size_t size() const { return size_; }
    std::string_view view() const { return {data_.get(), size_}; }

private:
    static constexpr std::size_t room_min = 64u << 10;

    void grow()
    {
        capacity_ = std::max(2 * capacity_, 4 * room_min);
        auto grown = static_cast<char*>(std::realloc(data_.get(), capacity_));
        if (!grown) {
            // What new does: it does not return.
            if (auto handler = std::get_new_handler())
                handler();
            std::abort();
        }
        (void)data_.release();
        data_.reset(grown);
    }

    struct Free {
        void operator()(char* data) const { std::free(data); }
    };
    std::unique_ptr<char, Free> data_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

} // namespace fluxdat::imp
