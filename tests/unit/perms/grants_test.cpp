// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/grants.h"
#include "support.h"

#include <condition_variable>
#include <csignal>
#include <fcntl.h>
#include <mutex>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;
using Catch::Contains;

namespace {

const GrantsNames names{
    [](uid_t user) { return user == 1001 ? "alice" : std::string(); },
    [](gid_t) { return std::string("physics"); },
};

const std::string text = "flux-dat-grants 1\n"
                         "owner 1500\n"
                         "job fAbC3dE\n"
                         "generation 7\n"
                         "open no\n"
                         "user 1001 alice\n"
                         "user 1002 -\n"
                         "group 2001 physics\n"
                         "end\n";

const Grants grants{1500, "fAbC3dE", {7, false, {1001, 1002}, {2001}}};

// The text above with one part replaced.
std::string with(std::string_view part, std::string_view other)
{
    auto changed = text;
    return changed.replace(changed.find(part), part.size(), other);
}

std::string refusal(const std::string& changed)
{
    return message(parse_grants(changed));
}

// A directory with a file `grants` of ours in it.
struct Directory {
    TemporaryDirectory directory;
    Fd fd{::open(directory.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    std::string file = directory / grants_file_name;

    Result<> write(const Grants& what)
    {
        return write_grants(fd.get(), "DOOR", what, names);
    }
    Result<Grants> read(uid_t owner = ::geteuid())
    {
        return read_grants(fd.get(), "DOOR", owner);
    }
};

Grants ours()
{
    return {::geteuid(), "fAbC", {1, false, {1001}, {}}};
}

} // namespace

TEST_CASE("names that a directory server does not tell in time are left out")
{
    struct Away { // outlives what nobody waits for
        std::mutex mutex;
        std::condition_variable changed;
        bool back = false;
        int asked = 0, told = 0;
    };
    auto away = std::make_shared<Away>();
    auto name = [away](std::uint32_t) {
        std::unique_lock lock(away->mutex);
        away->asked++;
        away->changed.wait(lock, [&] { return away->back; });
        away->told++;
        away->changed.notify_all();
        return std::string("alice");
    };
    Grants grants{500, "fAbC", {1, false, {1001, 1002, 1003}, {20}}};
    auto text = format_grants(grants, names_by({name, name}, 0.05));
    CHECK(text.find("user 1001 -\nuser 1002 -\nuser 1003 -\ngroup 20 -\nend")
          != std::string::npos);
    std::unique_lock lock(away->mutex);
    CHECK(away->asked <= 1); // for one there was time
    away->back = true;
    away->changed.notify_all();
    away->changed.wait(lock, [&] { return away->told == away->asked; });
    lock.unlock();
    CHECK(format_grants(grants, names_by({name, name}, 1000)).find("group 20 alice")
          != std::string::npos);
}

TEST_CASE("grants are written as documented and read back")
{
    CHECK(format_grants(grants, names) == text);
    auto parsed = parse_grants(text);
    REQUIRE(message(parsed) == "no error");
    CHECK(*parsed == grants);
}

TEST_CASE("grants without guests, and for everybody")
{
    Grants none{1500, "f1", {18446744073709551615u, true, {}, {}}};
    auto written = format_grants(none, names);
    CHECK(written
          == "flux-dat-grants 1\nowner 1500\njob f1\n"
             "generation 18446744073709551615\nopen yes\nend\n");
    CHECK(parse_grants(written) == none);
}

TEST_CASE("a name that would not be one field of the line is left out")
{
    for (std::string name : {"", "with space", "line\nuser 0 root", "t\xc3\xa4st",
                             "a/b", "a23456789012345678901234567890123"}) {
        GrantsNames odd{[&](uid_t) { return name; }, [&](gid_t) { return name; }};
        auto written = format_grants(grants, odd);
        CHECK_THAT(written, Contains("user 1001 -\nuser 1002 -\ngroup 2001 -\nend\n"));
        CHECK(parse_grants(written) == grants);
    }
    GrantsNames domain{[](uid_t) { return "DOM\\a.b-c_d$@x"; },
                       [](gid_t) { return "g"; }};
    CHECK(parse_grants(format_grants(grants, domain)) == grants);
}

TEST_CASE("the system's names")
{
    auto system = system_names();
    CHECK(system.user(0) == "root");
    CHECK(system.group(0) == "root");
    CHECK(system.user(stranger_uid) == "");
}

TEST_CASE("a name that is written already is not looked up again")
{
    auto before = parse_grants("flux-dat-grants 1\nowner 1500\njob f1\ngeneration 1\n"
                               "open no\nuser 1 was-bin\nuser 1001 -\ngroup 1 was-g\n"
                               "end\n");
    REQUIRE(before);
    auto names = names_as_written(*before);
    CHECK(names.user(1) == "was-bin");
    CHECK(names.user(1001) == "-");
    CHECK(names.group(1) == "was-g");
    CHECK(names.user(0) == "root"); // not in it
    CHECK(names.group(0) == "root");
}

TEST_CASE("names are looked up for a limited number of guests")
{
    auto system = system_names();
    for (int i = 0; i < 256; i++)
        CHECK(system.user(0) == "root");
    CHECK(system.user(0) == "");
    CHECK(system.group(0) == "");
}

TEST_CASE("what is no grants file is refused, with the line")
{
    CHECK(refusal("") == "grants:1: the file is cut off: no `end`");
    CHECK(refusal(with("grants 1", "grants 2"))
          == "grants:1: not a grants file of a version known here: expected "
             "`flux-dat-grants 1`");
    CHECK(refusal(with("owner 1500", "own 1500")) == "grants:2: expected `owner ...`");
    CHECK(refusal(with("owner 1500", "owner alice"))
          == "grants:2: expected a decimal number after `owner`");
    for (auto* number : {"", "-1", "+1", "01", "0x10", "1 ", " 1", "4294967296", "1\t"})
        CHECK_THAT(refusal(with("owner 1500", std::string("owner ") + number)),
                   Contains("grants:2: expected"));
    CHECK(refusal(with("job fAbC3dE", "job 123"))
          == "grants:3: expected a job id in F58 after `job`");
    for (auto* job : {"f", "f0", "fI", "fl", "f/",
                      "\xc6\x92"
                      "Ab",
                      "f1234567890123456"})
        CHECK_THAT(refusal(with("fAbC3dE", job)), Contains("grants:3: expected"));
    CHECK(refusal(with("generation 7", "generation 18446744073709551616"))
          == "grants:4: expected a decimal number after `generation`");
    CHECK(refusal(with("open no", "open maybe"))
          == "grants:5: expected `open yes` or `open no`");
    CHECK(refusal(with("open no\n", "")) == "grants:5: expected `open ...`");
    CHECK(refusal(with("user 1002 -", "users 1002 -"))
          == "grants:7: expected `user ...`, `group ...` or `end`");
    CHECK(refusal(with("user 1002", "\nuser 1002"))
          == "grants:7: expected `user ...`, `group ...` or `end`");
    CHECK(refusal(with("user 1002", "# a comment\nuser 1002"))
          == "grants:7: expected `user ...`, `group ...` or `end`");
    CHECK(refusal(with("user 1002 -", "user bob -"))
          == "grants:7: expected a decimal id");
    CHECK(refusal(with("user 1002 -", "user 1002"))
          == "grants:7: expected a name or `-` after the id");
    CHECK(refusal(with("user 1002 -", "user 1002 a b"))
          == "grants:7: expected a name or `-` after the id");
    CHECK(refusal(with("user 1002 -", "user 1002 -\r"))
          == "grants:7: expected a name or `-` after the id");
    CHECK(refusal(with("user 1002 -", std::string("user 1002 a\0b", 13)))
          == "grants:7: expected a name or `-` after the id");
    CHECK(refusal(with("user 1001", "user 0"))
          == "grants:6: user 0 (root) cannot be a guest");
    CHECK(refusal(with("group 2001", "group 0"))
          == "grants:8: group 0 (root) cannot be a guest");
    CHECK(refusal(with("user 1002", "user 1500"))
          == "grants:7: user 1500 owns the DAT and cannot be its guest");
    CHECK(refusal(with("user 1002", "user 4294967295"))
          == "grants:7: 4294967295 is no user's id");
    CHECK(refusal(with("user 1002", "user 1001")) == "grants:7: the ids do not ascend");
    CHECK(refusal(with("user 1002", "user 1000")) == "grants:7: the ids do not ascend");
    CHECK(refusal(with("end\n", "user 1003 -\nend\n"))
          == "grants:9: a user after a group");
    CHECK(refusal(text + "user 1003 -\n") == "grants:9: something follows `end`");
    CHECK(refusal(text + "\n") == "grants:9: something follows `end`");
}

TEST_CASE("a grants file cut off anywhere grants nothing")
{
    for (std::size_t length = 0; length < text.size(); length++)
        CHECK_THAT(refusal(text.substr(0, length)), Contains("the file is cut off"));
    CHECK(refusal(text.substr(0, text.size() - 1))
          == "grants:9: the file is cut off within this line");
    CHECK(refusal(text.substr(0, text.size() - 4))
          == "grants:9: the file is cut off: no `end`");
}

TEST_CASE("a grants file has limits, and the longest one fits")
{
    Grants many{1500, "fAbC3dE", {18446744073709551615u, false, {}, {}}};
    for (gid_t group = 4294967294u; many.guests.groups.size() < guests_max; group--)
        many.guests.groups.insert(many.guests.groups.begin(), group);
    GrantsNames longest{{}, [](gid_t) { return std::string(grants_name_max, 'x'); }};
    auto written = format_grants(many, longest);
    CHECK(written.size() <= grants_size_max);
    CHECK(parse_grants(written) == many);

    auto one_more = written;
    one_more.replace(one_more.find("open no\n"), 8, "open no\nuser 1 -\n");
    CHECK(message(parse_grants(one_more)) == "grants:8006: more than 8000 guests");
    CHECK(message(parse_grants(std::string(grants_size_max + 1, 'x')))
          == "grants: larger than 524288 bytes, which no grants file is");
}

TEST_CASE("the file is the owner's alone, whatever the umask")
{
    Directory at;
    for (mode_t mask : {0, 077, 0777}) {
        auto before = ::umask(mask);
        auto written = at.write(ours());
        ::umask(before);
        REQUIRE(message(written) == "no error");
        CHECK(mode_of(at.file) == 0600);
        CHECK(at.read() == ours());
        CHECK(entries(at.directory.path()) == std::vector<std::string>{"grants"});
    }
}

TEST_CASE("a temporary file that a killed writer left is no obstacle")
{
    Directory at;
    auto temporary = at.directory / grants_temporary_name;
    write_file(temporary, "half of a li");
    CHECK(message(at.write(ours())) == "no error");
    CHECK_FALSE(exists(temporary));

    auto elsewhere = at.directory / "elsewhere";
    write_file(elsewhere, "untouched");
    REQUIRE(::symlink(elsewhere.c_str(), temporary.c_str()) == 0);
    CHECK(message(at.write(ours())) == "no error");
    CHECK(read_file(elsewhere) == "untouched");
}

TEST_CASE("the file is replaced also where a symbolic link is in its place")
{
    Directory at;
    auto elsewhere = at.directory / "elsewhere";
    write_file(elsewhere, "untouched");
    REQUIRE(::symlink(elsewhere.c_str(), at.file.c_str()) == 0);
    CHECK(message(at.write(ours())) == "no error");
    CHECK(read_file(elsewhere) == "untouched");
    CHECK(at.read() == ours());
}

TEST_CASE("a write that fails half way leaves the old file and no other")
{
    Directory at;
    REQUIRE(at.write(ours()));
    auto newer = ours();
    newer.guests.generation = 2;
    // A file size limit cuts a write short, then fails it, as a full file system does.
    auto said = in_child([&] {
        rlimit limit{20, 20};
        ::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &limit);
        return message(at.write(newer));
    });
    CHECK(said == "cannot write DOOR/grants: File too large");
    CHECK(at.read() == ours());
    CHECK(entries(at.directory.path()) == std::vector<std::string>{"grants"});
}

TEST_CASE("what is no file to trust is not read")
{
    Directory at;
    auto absent = at.read();
    CHECK(message(absent) == "cannot open DOOR/grants: No such file or directory");
    CHECK(absent.error().errnum == ENOENT);

    auto good = format_grants(ours(), names);
    SECTION("a symbolic link")
    {
        write_file(at.directory / "other", good, 0600);
        REQUIRE(::symlink("other", at.file.c_str()) == 0);
        CHECK(message(at.read()) == "DOOR/grants is a symbolic link");
    }
    SECTION("a directory")
    {
        REQUIRE(::mkdir(at.file.c_str(), 0700) == 0);
        CHECK(message(at.read()) == "DOOR/grants is not a regular file");
    }
    SECTION("a FIFO, without waiting for its writer")
    {
        REQUIRE(::mkfifo(at.file.c_str(), 0600) == 0);
        CHECK(message(at.read()) == "DOOR/grants is not a regular file");
    }
    SECTION("another owner's")
    {
        write_file(at.file, good, 0600);
        CHECK(
            message(at.read(owner_uid))
            == fmt::format("DOOR/grants belongs to user {}, not to the DAT's owner {}",
                           ::geteuid(), owner_uid));
    }
    SECTION("one that others can write")
    {
        write_file(at.file, good, 0620);
        CHECK(message(at.read()) == "DOOR/grants can be written by others (mode 0620)");
        write_file(at.file, good, 0602);
        CHECK(message(at.read()) == "DOOR/grants can be written by others (mode 0602)");
    }
    SECTION("one that is too large")
    {
        write_file(at.file, std::string(grants_size_max + 1, 'x'), 0600);
        CHECK(message(at.read())
              == "DOOR/grants: larger than 524288 bytes, which no grants file is");
    }
    SECTION("one of a DAT of somebody else's")
    {
        write_file(at.file, text, 0600);
        CHECK(message(at.read())
              == fmt::format("DOOR/grants: says that user 1500 owns the DAT, but it is "
                             "user {}'s file",
                             ::geteuid()));
    }
    SECTION("one that is wrong inside")
    {
        write_file(at.file, with("open no", "open maybe"), 0600);
        CHECK(message(at.read()) == "DOOR/grants:5: expected `open yes` or `open no`");
    }
}
