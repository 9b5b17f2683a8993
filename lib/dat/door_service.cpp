// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/door_service.h"

#include "lib/perms/door.h"
#include "lib/say.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

constexpr const char* service_name = "dat-door";
// Seconds before another try to connect to the broker: the first pause, which doubles
// up to the second. A broker takes a second or so until it has its socket.
constexpr double pause_min = 0.05, pause_max = 5;
// Seconds after which a service that does not answer is given up. It does in some
// milliseconds, or is stopped, or its file system is stuck.
constexpr double answer_time_max = 5;

void answer(flux::Connection& flux, const std::string& door,
            const flux::Message& request)
{
    if (!(request.rolemask & flux::role_owner) && request.userid != geteuid())
        return flux.respond_error(request, EPERM, "a door is for the DAT's owner only");
    auto what = request.topic->substr(request.topic->find('.') + 1);
    if (what == "disconnect") // of somebody who had asked
        return;
    auto payload = flux::parse_json(request.payload_text());
    if (!payload || flux::text_at(*payload, "door") != door
        || !payload->contains("guests"))
        return flux.respond_error(request, EPROTO,
                                  "there is another door here, or no guest list came");
    std::optional<AtEntrance> done;
    if (what == "apply" || what == "check")
        done = act_at_entrance(Entrance::door, what, door,
                               flux::dump_json((*payload)["guests"]));
    if (!done)
        return flux.respond_error(request, ENOSYS, "a door has no such method");
    flux.respond(request, {{"good", done->good}, {"lines", done->lines}});
}

// Serves over one connection, for as long as it lasts. Errors: there was none, or the
// service could not be registered, which is told once.
flux::Task<Result<>> serve_once(flux::Loop& loop, const std::string& door,
                                flux::Interrupt& ended, bool& told)
{
    flux::Interrupt lost; // outlives the connection that raises it
    flux::InterruptScope either(&ended, [&] { lost.raise(*ended.reason()); });
    auto uri = fmt::format("local://{}/{}", door, perms::socket_file_name);
    auto flux = co_await flux::Connection::open(loop, uri, &ended);
    if (!flux)
        co_return std::unexpected(flux.error());
    (*flux)->on_lost([&](const Error& error) { lost.raise(error); });
    auto served =
        co_await (*flux)->serve(service_name, [&](const flux::Message& request) {
            answer(**flux, door, request);
        });
    if (!served) {
        if (!lost.reason() && !std::exchange(told, true))
            say(stderr, "flux-dat launch: cannot register the service {}: {}\n",
                service_name, served.error().message);
        co_return served;
    }
    (void)co_await loop.sleep(INFINITY, &lost); // while the broker lives
    co_return Result<>{};
}

flux::Task<Result<>> serve(flux::Loop& loop, const std::string& door,
                           flux::Interrupt& ended)
{
    double pause = pause_min;
    bool told = false; // that it cannot be registered
    while (!ended.reason()) {
        if (co_await serve_once(loop, door, ended, told))
            pause = pause_min;
        (void)co_await loop.sleep(pause, &ended); // cut short: that is the end
        pause = std::min(pause * 2, pause_max);
    }
    co_return Result<>{};
}

} // namespace

void serve_door(const std::string& door, int ended)
{
    flux::Loop loop;
    flux::Interrupt end;
    auto* poll = new uv_poll_t; // freed when libuv has closed it
    if (uv_poll_init(loop.uv(), poll, ended) != 0) {
        delete poll;
        return;
    }
    poll->data = &end;
    uv_poll_start(poll, UV_READABLE, [](uv_poll_t* handle, int, int) {
        uv_poll_stop(handle);
        static_cast<flux::Interrupt*>(handle->data)->raise({"the broker has ended"});
    });
    (void)loop.run(serve(loop, door, end));
    uv_close(reinterpret_cast<uv_handle_t*>(poll),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
}

flux::Task<std::optional<AtEntrance>>
ask_door(flux::Connection& dat, std::uint32_t rank, const std::string& what,
         const std::string& door, const std::string& guests, flux::Interrupt* interrupt)
{
    auto list = flux::parse_json(guests);
    if (!list)
        co_return std::nullopt;
    flux::Deadline deadline(dat.loop(), answer_time_max, {"no answer"}, interrupt);
    flux::Json payload{{"door", door}, {"guests", std::move(*list)}};
    auto said = co_await dat.rpc(fmt::format("{}.{}", service_name, what),
                                 std::move(payload), rank, &deadline.interrupt());
    if (!said || !said->is_object() || !said->contains("good")
        || !said->contains("lines") || !(*said)["lines"].is_array())
        co_return std::nullopt;
    AtEntrance result{(*said)["good"] == true, {}};
    for (auto& line : (*said)["lines"])
        if (line.is_string())
            result.lines.push_back(line.get<std::string>());
    co_return result;
}

} // namespace fluxdat::dat
