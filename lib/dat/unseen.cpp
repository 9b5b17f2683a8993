// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/unseen.h"

#include "lib/dat/ask.h"

namespace fluxdat::dat {

flux::Task<Result<Unseen>> find_unseen(flux::Loop& loop, flux::Connection& parent,
                                       std::string selector, Error not_found)
{
    auto conf = co_await flux::configuration(parent);
    auto id = flux::parse_jobid(selector);
    static const Json::json_pointer private_mode("/access/private-mode");
    if (!conf || !conf->contains(private_mode) || (*conf)[private_mode] != true)
        co_return std::unexpected(not_found);
    not_found.message += "; this instance is in private mode, where you see your own "
                         "jobs only: give the job id that you were told";
    auto owner = co_await flux::attribute_number(parent, "security.owner");
    if (!id || !owner)
        co_return std::unexpected(not_found);
    Unseen unseen;
    auto& dat = unseen.dat;
    dat.job.id = *id;
    dat.job.userid = *owner;
    dat.record.service_name = service_name(*owner, *id);
    dat.record.service_rank = flux::nodeid_any;
    Json nothing = Json::object();
    auto answer =
        co_await ask_supervisor(loop, parent, dat, "admission", std::move(nothing));
    if (!answer)
        co_return std::unexpected(answer.error().errnum == EPERM ? answer.error()
                                                                 : not_found);
    dat.record.name = flux::text_at(*answer, "name");
    dat.record.state = State::ready; // it has answered
    dat.job.state = flux::job_state_run;
    dat.job.nodelist = flux::text_at(*answer, "nodelist");
    dat.job.expiration = flux::number_at(*answer, "expiration");
    dat.job.annotations = {{"user", {{"uri", flux::text_at(*answer, "uri")}}}};
    unseen.answer = std::move(*answer);
    co_return unseen;
}

flux::Task<Result<Dat>> find_dat_to_use(flux::Loop& loop, flux::Connection& parent,
                                        std::optional<std::string> selector)
{
    auto dat = co_await find_dat(parent, selector);
    if (dat || dat.error().exit != Exit::no_such_dat || !selector)
        co_return dat;
    auto unseen = co_await find_unseen(loop, parent, *selector, dat.error());
    if (!unseen)
        co_return std::unexpected(unseen.error());
    co_return std::move(unseen->dat);
}

} // namespace fluxdat::dat
