// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/sandbox/engine.h"

#include "lib/program.h"
#include "lib/sandbox/broker.h"
#include "lib/sandbox/instance.h"
#include "lib/sandbox/rundir.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace fluxdat::sandbox {

namespace {

// What its jobs have left running may take so long to end by itself.
constexpr double orphan_grace = 2; // seconds

Result<std::unique_ptr<Instance>> start(flux::Loop& loop, Children& children,
                                        const EngineOptions& options)
{
    InstanceOptions out;
    out.config = options.config;
    auto& access = out.config["access"];
    if (access.is_null() || access.is_object())
        for (const char* key : {"allow-guest-user", "allow-root-owner"})
            if (!access.contains(key))
                access[key] = true;
    auto& exec = out.config["exec"];
    if ((exec.is_null() || exec.is_object()) && !exec.contains("imp"))
        exec["imp"] = fmt::format("{}/bin/{}", options.rundir, imp_name);
    if (options.config.contains("resource")
        && options.config["resource"].contains("config")) {
        auto inventory =
            inventory_from_config(options.config["resource"]["config"], options.hosts);
        if (!inventory)
            return std::unexpected(std::move(inventory.error()));
        out.inventory = std::move(*inventory);
    } else {
        out.inventory = uniform_inventory(options.hosts, options.cores);
    }
    if (mkdir(options.rundir.c_str(), 0711) < 0)
        return fail_errno(errno, fmt::format("cannot create {}", options.rundir));
    out.rundir = options.rundir;
    out.program = program_path();
    out.job_environment = session_environment();
    auto instance = Instance::create(loop, children, std::move(out));
    if (!instance)
        return instance;
    // From the leaves, so that nobody meets a rank whose subtree is not there.
    for (auto rank = (*instance)->size(); rank-- > 0;)
        if (auto rc = (*instance)->open_rank(
                rank, fmt::format("{}/local-{}", options.rundir, rank), getpid());
            !rc)
            return std::unexpected(std::move(rc.error()));
    return instance;
}

} // namespace

int run_engine(const EngineOptions& options,
               const std::function<void(const Result<>&)>& report)
{
    std::signal(SIGPIPE, SIG_IGN);
    flux::Loop loop;
    Children children(loop.uv());
    auto instance = start(loop, children, options);
    std::function<void()> end;
    if (instance) {
        end = [&] {
            (*instance)->shut_down(
                [&] { children.drain(orphan_grace, [&] { uv_stop(loop.uv()); }); });
        };
        std::array<uv_signal_t*, 2> handlers;
        constexpr std::array signals{SIGTERM, SIGINT};
        for (std::size_t i = 0; i < signals.size(); i++) {
            handlers[i] = new uv_signal_t;
            uv_signal_init(loop.uv(), handlers[i]);
            handlers[i]->data = &end;
            uv_signal_start(
                handlers[i],
                [](uv_signal_t* uv, int) {
                    auto& callback = *static_cast<std::function<void()>*>(uv->data);
                    if (callback)
                        std::exchange(callback, nullptr)();
                },
                signals[i]);
        }
        std::signal(SIGHUP, SIG_IGN);
        report({});
        uv_run(loop.uv(), UV_RUN_DEFAULT);
        for (auto* handler : handlers)
            HandleDeleter<uv_signal_t>{}(handler);
        instance->reset();
    }
    std::error_code ignored;
    std::filesystem::remove_all(options.rundir, ignored);
    if (!instance) {
        report(std::unexpected(instance.error()));
        return 1;
    }
    return 0;
}

} // namespace fluxdat::sandbox
