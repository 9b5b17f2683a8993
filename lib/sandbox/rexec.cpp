// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/rexec.h"

#include <algorithm>
#include <csignal>
#include <sys/wait.h>

namespace fluxdat::sandbox {

namespace {

// RFC 42, "exec request"
constexpr unsigned flag_stdout = 1, flag_stderr = 2, flag_write_credit = 8,
                   flag_waitable = 16;
constexpr unsigned local_flag_no_setpgrp = 2;

const Json* member(const Json& object, const char* key)
{
    if (!object.is_object())
        return nullptr;
    auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

Result<Command> parse_command(const Json& cmd)
{
    auto bad = [](const char* what) {
        return std::unexpected(
            Error{fmt::format("error parsing command string: {}", what), EPROTO});
    };
    Command command;
    const auto* cmdline = member(cmd, "cmdline");
    if (!cmdline || !cmdline->is_array())
        return bad("cmdline must be an array");
    for (const auto& word : *cmdline) {
        if (!word.is_string())
            return bad("cmdline must be strings");
        command.argv.push_back(word.get<std::string>());
    }
    if (command.argv.empty())
        return std::unexpected(Error{"command string is empty", EPROTO});
    const auto* environment = member(cmd, "env");
    if (!environment || !environment->is_object())
        return bad("env must be an object");
    for (const auto& [name, value] : environment->items())
        if (value.is_string() && !name.empty() && name.find('=') == name.npos)
            command.environment.push_back(
                fmt::format("{}={}", name, value.get_ref<const std::string&>()));
    if (const auto* cwd = member(cmd, "cwd"); cwd && cwd->is_string())
        command.cwd = cwd->get<std::string>();
    return command;
}

} // namespace

struct Rexec::Subprocess {
    Ticket ticket;
    std::uint32_t rank;
    unsigned flags;
    bool streaming; // else in the background
    std::string name, label;
    bool line_buffered[2] = {true, true};
    LineBuffer lines[2];
    bool eof[2] = {};
    std::shared_ptr<Process> process;
    std::optional<int> status;
    std::vector<Ticket> waiting; // for its end (rexec.wait)

    bool forwards(Stream stream) const
    {
        return streaming
               && (flags & (stream == Stream::out ? flag_stdout : flag_stderr));
    }
};

Rexec::Rexec(Router& router, Children& children, Options options)
    : router_(router), children_(children), options_(std::move(options))
{
    using enum Router::Where;
    auto method = [&](const char* topic, void (Rexec::*member)(const Request&)) {
        router.method(topic, everywhere, Router::owner_only,
                      [this, member](const Request& request) {
                          if (allowed(request))
                              (this->*member)(request);
                      });
    };
    method("rexec.exec", &Rexec::exec);
    method("rexec.write", &Rexec::write);
    method("rexec.kill", &Rexec::kill);
    method("rexec.wait", &Rexec::wait);
    method("rexec.list", &Rexec::list);
    router.on_departure([this](const Departure& departure) { forget(departure); });
}

Rexec::~Rexec()
{
    for (auto& subprocess : subprocesses_)
        if (subprocess->process)
            subprocess->process->kill(SIGKILL);
}

// In a multi-user instance the broker of rank 0 is trusted with more than the others,
// so those may not run commands there.
bool Rexec::allowed(const Request& request)
{
    if (!options_.multi_user || request.rank != 0
        || (request.message.rolemask & flux::role_local))
        return true;
    router_.fail(request.message, EPERM,
                 "Remote rexec requests are not allowed on rank 0");
    return false;
}

void Rexec::exec(const Request& request)
{
    auto refuse = [&](int errnum, std::string_view text) {
        router_.fail(request.message, errnum, text);
    };
    if (!request.payload.is_object())
        return refuse(EPROTO, "failed to unpack request: Protocol error");
    const auto* cmd = member(request.payload, "cmd");
    if (!cmd)
        return refuse(EPROTO, "invalid request payload: Object item not found: cmd");
    const auto* flags = member(request.payload, "flags");
    if (!flags || !flags->is_number_unsigned())
        return refuse(EPROTO, "invalid request payload: Object item not found: flags");
    auto command = parse_command(*cmd);
    if (!command)
        return refuse(command.error().errnum, command.error().message);

    auto subprocess = std::make_shared<Subprocess>();
    subprocess->ticket = request.ticket();
    subprocess->rank = request.rank;
    subprocess->flags = flags->get<unsigned>();
    subprocess->streaming = request.message.streaming();
    subprocess->name = command->argv[0];
    if (const auto* label = member(*cmd, "label"); label && label->is_string())
        subprocess->label = label->get<std::string>();
    if (const auto* options = member(*cmd, "opts"))
        for (auto stream : {Stream::out, Stream::err}) {
            auto key = fmt::format("{}_LINE_BUFFER", stream_name(stream));
            const auto* value = member(*options, key.c_str());
            if (value && *value == "false")
                subprocess->line_buffered[stream == Stream::out ? 0 : 1] = false;
        }
    if (command->cwd.empty())
        command->cwd = options_.cwd;
    const auto* local_flags = member(request.payload, "local_flags");
    if (local_flags && local_flags->is_number_unsigned()
        && (local_flags->get<unsigned>() & local_flag_no_setpgrp))
        command->own_group = false;
    set_variable(command->environment, "FLUX_URI", options_.local_uri(request.rank));

    auto* self = subprocess.get();
    auto process = children_.start(
        *command, {[this, self](Stream stream, std::string_view data) {
                       output(*self, stream, data);
                   },
                   [this, self](int status) {
                       self->status = status;
                       if (self->streaming)
                           router_.respond(self->ticket,
                                           {{"type", "finished"}, {"status", status}});
                       check_done(*self);
                   }});
    if (!process)
        return refuse(process.error().errnum,
                      fmt::format("error launching process: {}",
                                  std::strerror(process.error().errnum)));
    subprocess->process = std::move(*process);
    router_.respond(request.message,
                    {{"type", "started"}, {"pid", self->process->pid()}});
    if (!subprocess->streaming)
        subprocess->process->close_stdin();
    else if (subprocess->flags & flag_write_credit)
        router_.respond(request.message,
                        {{"type", "add-credit"},
                         {"channels", {{"stdin", Process::stdin_buffer_max}}}});
    subprocesses_.push_back(std::move(subprocess));
}

void Rexec::output(Subprocess& subprocess, Stream stream, std::string_view data)
{
    auto i = stream == Stream::out ? 0 : 1;
    auto send = [&](std::string_view line) {
        send_output(subprocess, stream, line, false);
    };
    if (!data.empty()) {
        if (subprocess.line_buffered[i])
            subprocess.lines[i].feed(data, send);
        else
            send(data);
        return;
    }
    subprocess.lines[i].flush(send);
    send_output(subprocess, stream, {}, true);
    subprocess.eof[i] = true;
    check_done(subprocess);
}

void Rexec::send_output(Subprocess& subprocess, Stream stream, std::string_view data,
                        bool eof)
{
    if (!subprocess.forwards(stream))
        return;
    Json io = {{"stream", stream_name(stream)},
               {"rank", std::to_string(subprocess.rank)}};
    if (eof)
        io["eof"] = true;
    else
        set_data(io, data);
    router_.respond(subprocess.ticket, {{"type", "output"},
                                        {"pid", subprocess.process->pid()},
                                        {"io", std::move(io)}});
}

void Rexec::check_done(Subprocess& subprocess)
{
    if (!subprocess.status || !subprocess.eof[0] || !subprocess.eof[1])
        return;
    if (subprocess.streaming)
        router_.end(std::exchange(subprocess.ticket, {}));
    for (const auto& ticket : std::exchange(subprocess.waiting, {}))
        router_.respond(ticket, {{"status", *subprocess.status}});
    // One that may be waited for stays until it is.
    if (!subprocess.streaming && (subprocess.flags & flag_waitable))
        return;
    subprocesses_.remove_if(
        [&](const auto& other) { return other.get() == &subprocess; });
}

void Rexec::write(const Request& request)
{
    const auto* matchtag = member(request.payload, "matchtag");
    const auto* io = member(request.payload, "io");
    if (!matchtag || !matchtag->is_number_unsigned() || !io || !io->is_object())
        return;
    for (auto& subprocess : subprocesses_) {
        if (subprocess->rank != request.rank
            || subprocess->ticket.matchtag() != matchtag->get<std::uint32_t>()
            || !same_sender(subprocess->ticket, request.message))
            continue;
        const auto* stream = member(*io, "stream");
        if (!stream || *stream != "stdin")
            return;
        std::weak_ptr<Subprocess> weak = subprocess;
        auto credit = [this, weak](std::size_t written) {
            auto alive = weak.lock();
            if (alive && !alive->status && (alive->flags & flag_write_credit))
                router_.respond(alive->ticket, {{"type", "add-credit"},
                                                {"channels", {{"stdin", written}}}});
        };
        if (auto data = get_data(*io); !data.empty())
            subprocess->process->write(data, credit);
        if (const auto* eof = member(*io, "eof"); eof && *eof == true)
            subprocess->process->close_stdin();
        return;
    }
}

// The subprocess that "pid" or "label" names, or an answer that there is none.
Rexec::Subprocess* Rexec::find(const Request& request)
{
    const auto* pid = member(request.payload, "pid");
    const auto* label = member(request.payload, "label");
    if (!pid && !label) {
        router_.fail(request.message, EPROTO,
                     "invalid request payload: Object item not found: pid");
        return nullptr;
    }
    for (auto& subprocess : subprocesses_) {
        bool fits = label ? !subprocess->label.empty() && *label == subprocess->label
                          : *pid == Json(subprocess->process->pid());
        if (fits && subprocess->rank == request.rank)
            return subprocess.get();
    }
    router_.fail(request.message, ESRCH,
                 fmt::format("{} {} does not belong to any subprocess",
                             label ? "label" : "pid",
                             label ? label->dump() : pid->dump()));
    return nullptr;
}

void Rexec::kill(const Request& request)
{
    const auto* signum = member(request.payload, "signum");
    auto* subprocess = find(request);
    if (!subprocess)
        return;
    if (!signum || !signum->is_number_integer() || signum->get<int>() < 0
        || signum->get<int>() >= NSIG)
        return router_.fail(request.message, EPROTO,
                            "invalid request payload: Object item not found: signum");
    subprocess->process->kill(signum->get<int>());
    router_.respond(request.message);
}

void Rexec::wait(const Request& request)
{
    auto* subprocess = find(request);
    if (!subprocess)
        return;
    if (!(subprocess->flags & flag_waitable))
        return router_.fail(request.message, EINVAL, "subprocess is not waitable");
    if (!subprocess->status) {
        subprocess->waiting.push_back(request.ticket());
        return;
    }
    router_.respond(request.message, {{"status", *subprocess->status}});
    subprocess->flags &= ~flag_waitable;
    check_done(*subprocess);
}

void Rexec::list(const Request& request)
{
    Json procs = Json::array();
    for (const auto& subprocess : subprocesses_)
        if (subprocess->rank == request.rank)
            procs.push_back({{"pid", subprocess->process->pid()},
                             {"cmd", subprocess->name},
                             {"label", subprocess->label},
                             {"state", subprocess->status ? "Z" : "R"}});
    router_.respond(request.message, {{"rank", request.rank}, {"procs", procs}});
}

// RFC 42: "If the requesting process disconnects, the subprocess SHALL be terminated."
void Rexec::forget(const Departure& departure)
{
    for (auto& subprocess : subprocesses_) {
        if (subprocess->streaming && subprocess->ticket.topic
            && departure.concerns(subprocess->ticket)) {
            subprocess->process->kill(SIGKILL);
            subprocess->ticket.flags |= flux::flag_noresponse;
        }
        std::erase_if(subprocess->waiting,
                      [&](const Ticket& ticket) { return departure.concerns(ticket); });
    }
}

void Rexec::rank_lost(std::uint32_t rank)
{
    std::vector<std::shared_ptr<Subprocess>> lost;
    for (auto& subprocess : subprocesses_)
        if (subprocess->rank == rank)
            lost.push_back(subprocess);
    for (auto& subprocess : lost) {
        if (subprocess->streaming && subprocess->ticket.topic) {
            router_.fail(subprocess->ticket, EHOSTUNREACH);
            subprocess->ticket.flags |= flux::flag_noresponse;
        }
        subprocess->process->kill(SIGKILL);
    }
}

} // namespace fluxdat::sandbox
