// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/perms/replace_file.h"
#include "support.h"

#include "lib/perms/fd.h"

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

using namespace fluxdat;
using namespace fluxdat::perms;
using namespace fluxdat::perms::test;

TEST_CASE("a file is replaced as a whole, with its mode, whatever was left before")
{
    TemporaryDirectory top;
    Fd directory(::open(top.path().c_str(), O_RDONLY | O_DIRECTORY));
    auto put = [&](std::string_view text) {
        return message(
            replace_file(directory.get(), top.path(), "file", "file.new", text));
    };
    auto before = ::umask(0777);
    CHECK(put("one") == "no error");
    ::umask(before);
    CHECK(mode_of(top / "file") == 0600);
    write_file(top / "file.new", "half of", 0644); // of a writer that was killed
    CHECK(put("two") == "no error");
    CHECK(read_file(top / "file") == "two");
    CHECK(entries(top.path()) == std::vector<std::string>{"file"});
}

TEST_CASE("a file that cannot be replaced stays as it was")
{
    TemporaryDirectory top;
    write_file(top / "file", "old", 0600);
    std::filesystem::create_directory(top / "file.new");
    Fd directory(::open(top.path().c_str(), O_RDONLY | O_DIRECTORY));
    CHECK(message(replace_file(directory.get(), top.path(), "file", "file.new", "new"))
          == fmt::format("cannot write {}/file: Is a directory", top.path()));
    CHECK(read_file(top / "file") == "old");
    std::filesystem::remove(top / "file.new");
    // The name is taken by what no file can replace: nothing temporary stays.
    std::filesystem::create_directory(top / "name");
    CHECK(message(replace_file(directory.get(), top.path(), "name", "file.new", "new"))
          == fmt::format("cannot write {}/name: Is a directory", top.path()));
    CHECK(entries(top.path()) == std::vector<std::string>{"file", "name"});
}
