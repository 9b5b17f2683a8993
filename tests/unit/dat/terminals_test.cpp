// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/terminals.h"

#include "lib/fd.h"
#include "lib/imp/user.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <pty.h>
#include <sys/stat.h>
#include <utmpx.h>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

// A terminal of this user, in nobody's hands.
struct Terminal {
    Terminal()
    {
        int main_side = -1, other_side = -1;
        std::array<char, 64> path{};
        REQUIRE(openpty(&main_side, &other_side, path.data(), nullptr, nullptr) == 0);
        main = Fd(main_side);
        other = Fd(other_side);
        name = path.data();
        fcntl(main.get(), F_SETFL, O_NONBLOCK);
        mesg(true);
    }
    void mesg(bool on) const { REQUIRE(fchmod(other.get(), on ? 0620 : 0600) == 0); }
    std::string shown() const
    {
        std::array<char, 4096> text{};
        auto size = read(main.get(), text.data(), text.size());
        return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
    }

    Fd main, other;
    std::string name;
};

// A file that says who is logged in, in a directory of its own.
struct LoggedIn {
    LoggedIn()
    {
        std::string path = std::filesystem::temp_directory_path() / "utmp-XXXXXX";
        directory = mkdtemp(path.data());
        file = directory / "utmp";
        Fd created(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        REQUIRE(created);
    }
    ~LoggedIn() { std::filesystem::remove_all(directory); }

    void add(const std::string& user, const std::string& line,
             short type = USER_PROCESS)
    {
        utmpx entry{};
        entry.ut_type = type;
        std::strncpy(entry.ut_user, user.c_str(), sizeof entry.ut_user);
        std::strncpy(entry.ut_line, line.c_str(), sizeof entry.ut_line);
        auto id = std::to_string(count++);
        std::strncpy(entry.ut_id, id.c_str(), sizeof entry.ut_id);
        utmpxname(file.c_str());
        setutxent();
        REQUIRE(pututxline(&entry));
        endutxent();
    }

    std::filesystem::path directory, file;
    int count = 0;
};

std::string my_name()
{
    auto me = imp::user_by_uid(geteuid());
    return me ? me->name : "";
}

bool everybody(uid_t)
{
    return true;
}

} // namespace

TEST_CASE("A line comes on the terminal of who is logged in")
{
    Terminal terminal;
    LoggedIn logged_in;
    logged_in.add(my_name(), terminal.name.substr(5));
    CHECK(tell_terminals("this DAT ends in 5m", everybody, logged_in.file) == 1);
    CHECK_THAT(terminal.shown(), Catch::Contains("this DAT ends in 5m"));
    CHECK(tell_terminals(
              "x", [](uid_t) { return false; }, logged_in.file)
          == 0);
    CHECK(terminal.shown().empty());
}

TEST_CASE("Who has mesg off gets no line")
{
    Terminal terminal;
    LoggedIn logged_in;
    logged_in.add(my_name(), terminal.name.substr(5));
    terminal.mesg(false);
    CHECK(tell_terminals("x", everybody, logged_in.file) == 0);
    CHECK(terminal.shown().empty());
}

TEST_CASE("What stands in utmp is not believed")
{
    Terminal terminal;
    LoggedIn logged_in;
    auto file = logged_in.directory / "file";
    Fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0620));
    logged_in.add(my_name(), "../" + file.string());
    logged_in.add(my_name(), "null"); // no terminal
    logged_in.add(my_name(), "nosuch");
    logged_in.add("nobody", terminal.name.substr(5)); // it is somebody else's
    logged_in.add("no-such-user", terminal.name.substr(5));
    logged_in.add(my_name(), terminal.name.substr(5), DEAD_PROCESS);
    CHECK(tell_terminals("x", everybody, logged_in.file) == 0);
    CHECK(std::filesystem::file_size(file) == 0);
    CHECK(terminal.shown().empty());
}

TEST_CASE("A line drives no terminal, is bounded, and comes once")
{
    Terminal terminal;
    LoggedIn logged_in;
    logged_in.add(my_name(), terminal.name.substr(5));
    logged_in.add(my_name(), terminal.name.substr(5));
    std::string text = "a\x1b[2J\nb" + std::string(1000, 'x');
    CHECK(tell_terminals(text, everybody, logged_in.file) == 1);
    auto shown = terminal.shown();
    CHECK_THAT(shown, Catch::Contains("a?[2J?bxxx"));
    CHECK(shown.size() <= terminal_line_max + 10);
}

TEST_CASE("A terminal that takes nothing is not waited for")
{
    Terminal terminal;
    LoggedIn logged_in;
    logged_in.add(my_name(), terminal.name.substr(5));
    std::string text(terminal_line_max, 'x');
    int told = 0; // nobody reads: its buffer gets full
    for (int i = 0; i < 1000; i++)
        told += static_cast<int>(tell_terminals(text, everybody, logged_in.file));
    CHECK(told < 1000);
}
