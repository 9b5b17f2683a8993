// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/terminal.h"

#include "lib/readable.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <termios.h>
#include <unistd.h>

namespace fluxdat::cli {

namespace {

// Alternate screen on, no cursor, long lines cut and not wrapped; and back. A terminal
// that does not know one of these ignores it.
constexpr std::string_view enter_codes = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view leave_codes = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::string_view home = "\x1b[H", erase_line = "\x1b[K",
                           erase_screen = "\x1b[J"; // from the cursor on

constexpr std::array watched_signals{SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};

} // namespace

struct Terminal::State {
    flux::Interrupt *wake = nullptr, *quit = nullptr; // null: nobody waits any more
    Fd keys_watch;                                    // what `keys` polls
    uv_poll_t keys{};
    bool has_keys = false;
    std::array<uv_signal_t, watched_signals.size()> signals{};
    std::size_t open_handles = 0;
    termios before{};
    bool entered = false, cut_short = false;
    bool draws = true;

    void enter()
    {
        // In the background, tcsetattr() would stop the process.
        bool foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();
        if (foreground && tcgetattr(STDIN_FILENO, &before) == 0) {
            auto raw = before;
            raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
            raw.c_cc[VMIN] = 1;
            raw.c_cc[VTIME] = 0;
            has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
        }
        entered = true;
        if (draws && !write_all(STDOUT_FILENO, enter_codes))
            end(true);
    }

    void leave()
    {
        if (!entered)
            return;
        entered = false;
        if (draws)
            write_all(STDOUT_FILENO, leave_codes);
        if (has_keys)
            tcsetattr(STDIN_FILENO, TCSANOW, &before);
        has_keys = false;
    }

    void happened()
    {
        if (wake)
            wake->raise({"something has happened on the terminal"});
    }

    void end(bool before_time)
    {
        cut_short = cut_short || before_time;
        if (quit)
            quit->raise({"whoever watched has seen enough"});
        happened();
    }

    void read_keys()
    {
        std::array<char, 64> bytes{};
        auto count = read(STDIN_FILENO, bytes.data(), bytes.size());
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (count <= 0)
            return end(true);
        for (char key : std::string_view(bytes.data(), static_cast<std::size_t>(count)))
            if (key == 'q' || key == 'Q' || key == '\x04' || key == '\x03')
                end(false);
        happened();
    }

    void take_signal(int signum)
    {
        if (signum == SIGTSTP) {
            leave();
            ::raise(SIGSTOP);
            enter(); // it goes on
        } else if (signum != SIGWINCH) {
            return end(signum != SIGINT);
        }
        happened();
    }
};

Terminal::Terminal(flux::Loop& loop, flux::Interrupt& wake, flux::Interrupt& quit,
                   Use use)
    : state_(new State)
{
    state_->wake = &wake;
    state_->quit = &quit;
    state_->draws = use == Use::whole;
    for (std::size_t i = 0; state_->draws && i < watched_signals.size(); i++) {
        auto& handle = state_->signals[i];
        uv_signal_init(loop.uv(), &handle);
        handle.data = state_;
        uv_signal_start(
            &handle,
            [](uv_signal_t* signal, int signum) {
                static_cast<State*>(signal->data)->take_signal(signum);
            },
            watched_signals[i]);
        state_->open_handles++;
    }
    state_->enter();
    if (state_->has_keys)
        state_->keys_watch = watch_readable(STDIN_FILENO);
    if (state_->keys_watch
        && uv_poll_init(loop.uv(), &state_->keys, state_->keys_watch.get()) == 0) {
        state_->keys.data = state_;
        state_->open_handles++;
        uv_poll_start(&state_->keys, UV_READABLE, [](uv_poll_t* keys, int, int) {
            static_cast<State*>(keys->data)->read_keys();
        });
    }
}

Terminal::~Terminal()
{
    state_->wake = state_->quit = nullptr;
    state_->leave();
    auto closed = [](uv_handle_t* handle) {
        auto* state = static_cast<State*>(handle->data);
        if (--state->open_handles == 0)
            delete state;
    };
    if (state_->keys.data)
        uv_close(reinterpret_cast<uv_handle_t*>(&state_->keys), closed);
    for (auto& signal : state_->signals)
        if (signal.data)
            uv_close(reinterpret_cast<uv_handle_t*>(&signal), closed);
    if (state_->open_handles == 0)
        delete state_;
}

Screen Terminal::screen() const
{
    return screen_of(STDOUT_FILENO);
}

void Terminal::draw(const std::vector<std::string>& lines)
{
    auto rows = screen().lines;
    auto count = rows > 0 ? std::min(lines.size(), rows) : lines.size();
    std::string frame(home);
    // Erased before it is written: behind a line that fills the screen, the cursor
    // still stands on its last character. And behind the last line it would scroll.
    for (std::size_t i = 0; i < count; i++) {
        frame += erase_line;
        frame += lines[i];
        if (i + 1 < count)
            frame += "\r\n";
    }
    if (rows == 0 || count < rows) {
        frame += "\r\n";
        frame += erase_screen;
    }
    if (!write_all(STDOUT_FILENO, frame))
        state_->end(true);
}

bool Terminal::cut_short() const
{
    return state_->cut_short;
}

} // namespace fluxdat::cli
