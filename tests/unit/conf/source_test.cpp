// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/source.h"

#include "tests/unit/conf/scratch.h"

#include <optional>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

Result<Value> read(const std::string& path)
{
    return read_file(path, Origin::Kind::file, false);
}

std::string argument_error(const std::string& argument,
                           const std::vector<std::string>& search_path = {})
{
    auto value = read_argument(argument, 2, search_path);
    REQUIRE_FALSE(value);
    CHECK(value.error().exit == Exit::usage);
    CHECK(value.error().message.find('\n') == std::string::npos);
    return value.error().message;
}

Json argument(const std::string& text, const std::vector<std::string>& search_path = {})
{
    auto value = read_argument(text, 2, search_path);
    INFO((value ? "" : value.error().message));
    REQUIRE(value);
    return value->json();
}

// An environment variable for one test.
class Environment
{
public:
    Environment(const char* name, const char* value) : name_(name)
    {
        if (const char* before = getenv(name))
            before_ = before;
        if (value)
            setenv(name, value, 1);
        else
            unsetenv(name);
    }
    ~Environment()
    {
        if (before_)
            setenv(name_, before_->c_str(), 1);
        else
            unsetenv(name_);
    }

private:
    const char* name_;
    std::optional<std::string> before_;
};

} // namespace

TEST_CASE("a file is TOML or JSON by its name", "[source]")
{
    const Scratch scratch;
    CHECK(read(scratch.file("a.toml", "[a]\nb = 1\n"))->json()
          == Json::parse(R"({"a":{"b":1}})"));
    CHECK(read(scratch.file("a.json", "{\"a\":{\"b\":1}}"))->json()
          == Json::parse(R"({"a":{"b":1}})"));
    CHECK(read(scratch.file("empty.toml", ""))->json() == Json::object());
}

TEST_CASE("a file that cannot be used says why", "[source]")
{
    const Scratch scratch;
    auto missing = read(scratch / "no.toml");
    CHECK(missing.error().message
          == scratch / "no.toml" + ": No such file or directory");
    CHECK(missing.error().errnum == ENOENT);
    CHECK(missing.error().exit == Exit::failed);

    std::filesystem::create_directory(scratch.path / "d.toml");
    CHECK(read(scratch / "d.toml").error().message
          == scratch / "d.toml" + ": is a directory, where a file is expected");

    REQUIRE(mkfifo((scratch / "fifo.toml").c_str(), 0600) == 0);
    CHECK(read(scratch / "fifo.toml").error().message
          == scratch / "fifo.toml" + ": is not a regular file");

    const std::string huge =
        scratch.file("huge.toml", "# " + std::string(2u << 20, 'x'));
    CHECK(read(huge).error().message
          == huge
                 + ": larger than 1024 KiB, the most that a configuration file may be");

    const std::string bad = scratch.file("bad.toml", "a = 1\nb\n");
    CHECK(read(bad).error().message.starts_with(bad + ":2:"));

    const std::string array = scratch.file("array.json", " [1]");
    CHECK(
        read(array).error().message
        == array
               + ":1:2: expected a table of keys and values at the top, not an array");

    const std::string empty = scratch.file("empty.json", "");
    CHECK(read(empty).error().message.starts_with(empty + ":1:1: not JSON: "));
}

TEST_CASE("a file that may not be read says so", "[source]")
{
    if (geteuid() == 0 && access("/proc/self/root", R_OK) == 0) {
        // Root reads anything; become nobody for the open, and root again.
        const Scratch scratch;
        const std::string secret = scratch.file("secret.toml", "a = 1\n", 0600);
        REQUIRE(chmod(scratch.path.c_str(), 0755) == 0);
        REQUIRE(seteuid(65534) == 0);
        auto value = read(secret);
        REQUIRE(seteuid(0) == 0);
        REQUIRE_FALSE(value);
        CHECK(value.error().message == secret + ": Permission denied");
    } else {
        const Scratch scratch;
        const std::string secret = scratch.file("secret.toml", "a = 1\n", 0);
        CHECK(read(secret).error().message == secret + ": Permission denied");
    }
}

TEST_CASE("a hostile file name does no harm in a message", "[source]")
{
    const Scratch scratch;
    auto value = read(scratch / "a\x1b[2J\n\xff.toml");
    CHECK(value.error().message
          == scratch / "a?[2J ?.toml" + ": No such file or directory");
}

TEST_CASE("the site's files come in order of name", "[source]")
{
    const Scratch scratch;
    const std::string directory = scratch / "conf.d";
    CHECK(read_site(directory)->empty()); // none
    scratch.file("conf.d/20-b.toml", "b = 1");
    scratch.file("conf.d/10-a.toml", "a = 1");
    scratch.file("conf.d/README", "not TOML");
    scratch.file("conf.d/.hidden.toml", "not TOML");
    scratch.file("conf.d/old.toml.bak", "not TOML");
    auto layers = read_site(directory);
    REQUIRE(layers);
    REQUIRE(layers->size() == 2);
    CHECK((*layers)[0].find("a")->origin.str() == directory + "/10-a.toml:1:1");
    CHECK((*layers)[1].find("b")->origin.str() == directory + "/20-b.toml:1:1");
}

TEST_CASE("a site's directory that cannot be used says why", "[source]")
{
    const Scratch scratch;
    scratch.file("conf.d/10-a.toml", "a = \n");
    CHECK(read_site(scratch / "conf.d")
              .error()
              .message.starts_with(scratch / "conf.d/10-a.toml:1:"));

    std::filesystem::create_directories(scratch.path / "dirs" / "x.toml");
    CHECK(read_site(scratch / "dirs").error().message
          == scratch / "dirs/x.toml: is a directory, where a file is expected");

    const std::string file = scratch.file("file", "");
    CHECK(read_site(file).error().message == file + ": Not a directory");

    for (int i = 0; i < 257; ++i)
        scratch.file("many/" + std::to_string(i) + ".toml", "");
    CHECK(read_site(scratch / "many").error().message
          == scratch / "many: more than 256 files");
}

TEST_CASE("--conf: a file", "[source]")
{
    const Scratch scratch;
    CHECK(argument(scratch.file("a.toml", "a = 1")) == Json::parse(R"({"a":1})"));
    CHECK(argument(scratch.file("a.json", R"({"a":1})")) == Json::parse(R"({"a":1})"));
    CHECK(argument_error(scratch / "no.toml")
          == scratch / "no.toml: No such file or directory");
    CHECK(argument_error(scratch.path.string())
          == "--conf " + scratch.path.string()
                 + ": a configuration file's name ends in .toml or .json, and a "
                   "directory "
                   "cannot be given");
}

TEST_CASE("--conf: a key and its value", "[source]")
{
    CHECK(argument("exec.imp=/x") == Json::parse(R"({"exec":{"imp":"/x"}})"));
    CHECK(argument("resource.exclude=\"0\"")
          == Json::parse(R"({"resource":{"exclude":"0"}})"));
    CHECK(argument(" a.b = [1, 2] ") == Json::parse(R"({"a":{"b":[1,2]}})"));
    CHECK(argument("a.\"x=y.z\"=b=c") == Json::parse(R"({"a":{"x=y.z":"b=c"}})"));
    CHECK(argument("a=\"\"") == Json::parse(R"({"a":""})"));
    auto value = read_argument("exec.imp=/x", 1, {});
    CHECK(value->find("exec.imp")->origin.str() == "--conf exec.imp=/x");
    CHECK(value->find("exec.imp")->origin.exit() == Exit::usage);
}

TEST_CASE("--conf: a bad key or value", "[source]")
{
    CHECK(argument_error("=1") == "--conf =1: bad key: empty part at column 1");
    CHECK(argument_error("a..b=1") == "--conf a..b=1: bad key: empty part at column 3");
    CHECK(argument_error("a b=1").starts_with(
        "--conf a b=1: bad key: unexpected ' ' at column 2"));
    CHECK(argument_error("a.\"b=1")
          == "--conf a.\"b=1: bad key: quote at column 3 is not "
             "closed");
    CHECK(argument_error("a=")
          == "--conf a=: no value after '='; for an empty string "
             "write a=\\\"\\\" in the shell");
    CHECK(argument_error("a=[1")
          == "--conf a=[1: the value is neither JSON nor TOML; close its quotes or "
             "brackets");
    CHECK(argument_error("a=\xff") == "--conf a=?: not UTF-8 at byte 3");
}

TEST_CASE("--conf: text", "[source]")
{
    CHECK(argument("[a]\nb = 1\n") == Json::parse(R"({"a":{"b":1}})"));
    CHECK(argument("\n{\"a\":\n{\"b\":1}}\n") == Json::parse(R"({"a":{"b":1}})"));
    CHECK(argument("{\"a\":{\"b\":\"=\"}}") == Json::parse(R"({"a":{"b":"="}})"));
    auto value = read_argument("[a]\nb = 1\n", 3, {});
    CHECK(value->find("a.b")->origin.str()
          == "--conf text (argument 3), line 2, column 1");
    CHECK(argument_error("[a]\nb\n")
              .starts_with("--conf text (argument 2), line 2, column "));
    CHECK(argument_error("{\"a\"").starts_with(
        "--conf text (argument 2), line 1, column 5: not JSON: "));
    CHECK(argument_error("\n\n") == "--conf text (argument 2): empty");
    CHECK(argument_error("{" + std::string(2u << 20, ' ') + "}")
          == "--conf text (argument 2): larger than 1024 KiB");
}

TEST_CASE("--conf: a name", "[source]")
{
    const Scratch scratch;
    const std::vector<std::string> path = {scratch / "home", scratch / "xdg"};
    scratch.file("xdg/both.toml", "from = \"xdg\"");
    scratch.file("xdg/only.json", "{\"from\": \"json\"}");
    CHECK(argument("both", path) == Json::parse(R"({"from":"xdg"})"));
    CHECK(argument("only", path) == Json::parse(R"({"from":"json"})"));
    scratch.file("home/both.json", "{\"from\": \"home\"}");
    CHECK(argument("both", path) == Json::parse(R"({"from":"home"})"));
    scratch.file("home/both.toml", "from = \"toml\"");
    CHECK(argument("both", path) == Json::parse(R"({"from":"toml"})"));
    scratch.file("home/broken.toml", "x");
    CHECK(argument_error("broken", path).starts_with(scratch / "home/broken.toml:1:"));
    CHECK(argument_error("nosuch", {"/nonexistent/a", "/nonexistent/b"})
          == "--conf nosuch: no nosuch.toml or nosuch.json in /nonexistent/a, "
             "/nonexistent/b; a file is given by a name that ends in .toml or .json, a "
             "key as KEY=VALUE");
    CHECK(argument_error("nosuch").find("in any directory (HOME is not set)")
          != std::string::npos);
    CHECK(argument_error("")
          == "--conf: argument 2 is empty; it takes FILE, KEY=VALUE, "
             "TEXT or NAME");
    CHECK(argument_error("  ")
          == "--conf: argument 2 is empty; it takes FILE, "
             "KEY=VALUE, TEXT or NAME");
}

TEST_CASE("names are looked up where flux-alloc looks", "[source]")
{
    using Path = std::vector<std::string>;
    const Environment home("HOME", "/h");
    {
        const Environment config("XDG_CONFIG_HOME", nullptr);
        const Environment dirs("XDG_CONFIG_DIRS", nullptr);
        CHECK(search_path_from_environment()
              == Path{"/h/.config/flux/config", "/etc/xdg/flux/config"});
    }
    {
        const Environment config("XDG_CONFIG_HOME", "/c");
        const Environment dirs("XDG_CONFIG_DIRS", "/a:/b:");
        CHECK(search_path_from_environment()
              == Path{"/c/flux/config", "/a/flux/config", "/b/flux/config"});
    }
    {
        const Environment no_home("HOME", nullptr);
        const Environment config("XDG_CONFIG_HOME", "");
        const Environment dirs("XDG_CONFIG_DIRS", "");
        CHECK(search_path_from_environment() == Path{"/etc/xdg/flux/config"});
    }
}
