// SPDX-License-Identifier: LGPL-3.0-or-later
//
// flux-dat status: all DATs, a line each; or one in detail; once, or as it changes.
#include "cli/command.h"
#include "cli/dat_fields.h"
#include "cli/dat_page.h"
#include "cli/history.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "lib/clock.h"
#include "lib/dat/unseen.h"
#include "lib/flux/datetime.h"
#include "lib/harmless.h"
#include "lib/say.h"

#include <algorithm>
#include <poll.h>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

// Seconds between two questions of --watch, and between two frames, in which the time
// that is left counts down.
constexpr double question_interval = 2, frame_interval = 1;

void print(const std::vector<std::string>& lines)
{
    for (auto& line : lines)
        say(stdout, "{}\n", line);
}

// What a guest of a parent in private mode, who does not see the DAT's job, is told.
flux::Task<Result<int>> show_unseen(const Common& common, flux::Loop& loop,
                                    flux::Connection& parent, std::string selector,
                                    Error not_found)
{
    auto unseen = co_await dat::find_unseen(loop, parent, std::move(selector),
                                            std::move(not_found));
    if (!unseen)
        co_return std::unexpected(unseen.error());
    auto& [dat, answer] = *unseen;
    auto id = dat.job.id;
    if (common.json) {
        answer["version"] = 1;
        answer["id"] = flux::format_jobid(id);
        answer["jobid"] = id;
        print_json(answer);
        co_return 0;
    }
    auto end = dat.job.expiration > 0 ? flux::format_local_time(dat.job.expiration)
                                      : std::string("no end");
    std::vector<Row> rows{
        {{"name"}, {flux::text_at(answer, "name")}},
        {{"id"}, {flux::format_jobid(id)}},
        {{"owner"}, {user_name(flux::integer_at<uid_t>(answer, "owner"))}},
        {{"state"}, {flux::text_at(answer, "state")}},
        {{"nodes"}, {or_dash(flux::text_at(answer, "nodelist"))}},
        {{"until"}, {end}},
        {{"you"}, {"on the guest list: flux proxy " + flux::text_at(answer, "uri")}}};
    print(table_lines({{"", 0, 0}, {"", 0, 0}}, std::move(rows), false, Screen{}));
    co_return 0;
}

// Nobody reads what is written to stdout any more.
bool reader_is_gone()
{
    pollfd out{STDOUT_FILENO, 0, 0};
    return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP));
}

struct Status {
    Common common;
    std::optional<std::string> selector, format_text;
    bool shows_history = false, watches = false, no_header = false;
    std::optional<Format> format;

    std::vector<std::string> lines_of(const View& view, const Screen& screen) const
    {
        auto now = wall_clock();
        if (format) {
            std::vector<std::vector<Value>> rows;
            for (auto& dat : view.dats()) {
                auto& row = rows.emplace_back();
                for (auto field : format->fields())
                    row.push_back(dat_field(dat, field, now));
            }
            auto lines = format->lines(rows, !no_header);
            if (screen.terminal)
                for (auto& line : lines)
                    line = screen.cut(line, screen.columns);
            return lines;
        }
        if (!view.is_one())
            return view.dats().empty()
                       ? std::vector<std::string>{}
                       : dat_table(view.dats(), now, !no_header, screen);
        Details details{view.dats().front(), view.supervisor(), geteuid()};
        return screen.terminal ? detail_page(details, now, screen)
                               : detail_rows(details, now);
    }

    flux::Task<Result<int>> show(flux::Loop& loop, flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent)
            co_return std::unexpected(parent.error());
        flux::InterruptScope closing(&interrupt, [&parent] { (*parent)->close(); });
        if (shows_history)
            co_return co_await show_history(common, loop, **parent, selector,
                                            !no_header);
        View view(loop, selector);
        auto seen = co_await view.look(**parent);
        if (!seen && selector && seen.error().exit == Exit::no_such_dat)
            co_return co_await show_unseen(common, loop, **parent, *selector,
                                           seen.error());
        if (!seen)
            co_return std::unexpected(seen.error());
        if (!view.complaint().empty())
            common.warn(view.complaint());
        if (common.json)
            print_json(view.json());
        else if (view.dats().empty())
            common.note("there is no DAT here");
        else
            print(lines_of(view, screen_of(STDOUT_FILENO)));
        co_return 0;
    }

    // A line of JSON whenever something has changed, until the DAT has ended.
    flux::Task<Result<int>> follow_as_json(flux::Loop& loop, flux::Interrupt& interrupt)
    {
        auto parent = co_await connect_parent(loop, &interrupt);
        if (!parent)
            co_return std::unexpected(parent.error());
        flux::InterruptScope closing(&interrupt, [&parent] { (*parent)->close(); });
        View view(loop, selector);
        std::string told;
        flux::Interrupt wake, quit;
        flux::InterruptScope interrupted(
            &interrupt, [&wake] { wake.raise({"it is interrupted"}); });
        std::optional<Terminal> keys;
        if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
            keys.emplace(loop, wake, quit, Terminal::Use::keys);
        while (true) {
            auto changed = co_await view.look(**parent);
            if (!changed)
                co_return std::unexpected(changed.error());
            if (view.complaint() != told && !view.complaint().empty())
                common.warn(view.complaint());
            told = view.complaint();
            if (*changed)
                print_json(view.json());
            if (std::fflush(stdout) != 0 || view.has_ended() || reader_is_gone())
                co_return 0;
            (void)co_await loop.sleep(question_interval, &wake);
            wake.clear();
            if (interrupt.reason())
                co_return std::unexpected(*interrupt.reason());
            if (quit.reason())
                co_return 0;
        }
    }

    flux::Task<Result<int>> watch(flux::Loop& loop)
    {
        // What there is not to be seen is an error, and no empty screen.
        std::unique_ptr<flux::Connection> parent;
        View view(loop, selector);
        {
            auto connected = co_await connect_parent(loop);
            if (!connected)
                co_return std::unexpected(connected.error());
            parent = std::move(*connected);
            auto seen = co_await view.look(*parent);
            if (!seen)
                co_return std::unexpected(seen.error());
        }
        flux::Interrupt wake, quit;
        bool cut_short = false;
        {
            Terminal terminal(loop, wake, quit);
            flux::InterruptScope closing(&quit, [&parent] {
                if (parent)
                    parent->close(); // and with it what waits for an answer
            });
            std::string trouble;
            double asked = loop_time(loop);
            while (!quit.reason() && !view.has_ended()) {
                draw(terminal, view, trouble);
                wake.clear();
                (void)co_await loop.sleep(frame_interval, &wake);
                if (quit.reason() || loop_time(loop) < asked + question_interval)
                    continue;
                trouble = co_await look_again(loop, parent, view, quit);
                asked = loop_time(loop);
            }
            cut_short = terminal.cut_short();
        }
        if (cut_short)
            co_return static_cast<int>(Exit::failed);
        if (view.has_ended())
            common.note(view.ended_in_words());
        co_return 0;
    }

    // What is wrong, if something is.
    static flux::Task<std::string> look_again(flux::Loop& loop,
                                              std::unique_ptr<flux::Connection>& parent,
                                              View& view, flux::Interrupt& quit)
    {
        if (!parent || parent->lost()) {
            auto connected = co_await connect_parent(loop, &quit);
            if (!connected)
                co_return connected.error().message;
            parent = std::move(*connected);
        }
        auto seen = co_await view.look(*parent);
        co_return seen ? view.complaint() : seen.error().message;
    }

    void draw(Terminal& terminal, const View& view, const std::string& trouble) const
    {
        auto screen = terminal.screen();
        auto lines = lines_of(view, screen);
        if (view.dats().empty())
            lines = {screen.cut("there is no DAT here", screen.columns)};
        constexpr std::size_t footer_lines = 2;
        if (screen.lines > footer_lines && lines.size() + footer_lines > screen.lines) {
            auto more = lines.size() + footer_lines - screen.lines;
            lines.resize(screen.lines - footer_lines);
            lines.back() =
                screen.cut(fmt::format("{} {} lines more", screen.ellipsis(), more + 1),
                           screen.columns);
        }
        auto footer =
            trouble.empty()
                ? fmt::format("{}  q quits", flux::format_local_time(wall_clock()))
                : "trying again: " + harmless(trouble);
        lines.push_back("");
        lines.push_back(screen.paint(trouble.empty() ? Hue::faint : Hue::bad,
                                     screen.cut(footer, screen.columns)));
        terminal.draw(lines);
    }

    static double loop_time(flux::Loop& loop)
    {
        return static_cast<double>(uv_now(loop.uv())) / 1000;
    }

    Result<> check()
    {
        auto screen = screen_of(STDOUT_FILENO);
        if (watches && !common.json && !screen.moves)
            return fail(Exit::usage,
                        "--watch: stdout is no terminal that can be drawn on; --watch "
                        "--json prints a line for each change");
        if (format_text) {
            auto parsed = Format::parse(*format_text, dat_fields());
            if (!parsed)
                return std::unexpected(parsed.error());
            format = std::move(*parsed);
        }
        return {};
    }

    int run()
    {
        if (format_text == "help") {
            print(help_of_fields());
            return finish(common, 0);
        }
        if (auto good = check(); !good)
            return common.report(good.error());
        flux::Loop loop;
        if (watches && !common.json) {
            auto shown = loop.run(watch(loop));
            return shown ? finish(common, *shown) : common.report(shown.error());
        }
        flux::Interrupt interrupt;
        flux::InterruptSources sources(loop, interrupt);
        auto shown =
            loop.run(watches ? follow_as_json(loop, interrupt) : show(loop, interrupt));
        if (shown)
            return finish(common, *shown);
        return common.report(interrupt.reason().value_or(shown.error()));
    }
};

} // namespace

void add_status(CLI::App& app, Chosen& chosen)
{
    auto status = std::make_shared<Status>();
    auto* command =
        add_command(app, status->common, "status", "Show all DATs, or one in detail");
    add_dat_option(*command, status->selector);
    auto* format = command
                       ->add_option("-o,--format", status->format_text,
                                    "A line for each DAT, of these fields; \"help\" "
                                    "lists them")
                       ->type_name("FORMAT");
    command->add_flag("-n,--no-header", status->no_header,
                      "Without the line of titles");
    auto* watch = command->add_flag("--watch", status->watches,
                                    "Go on showing it as it changes; q quits");
    command
        ->add_flag("--history", status->shows_history,
                   "Who changed the guest list of the DAT, when, and how")
        ->excludes(format)
        ->excludes(watch);
    format->excludes(command->get_option("--json"));
    command->callback(
        [status, &chosen] { chosen = [status] { return status->run(); }; });
}

} // namespace fluxdat::cli
