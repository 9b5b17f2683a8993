// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tests/unit/conf/scratch.h"

#include <sys/wait.h>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::conf;

TEST_CASE("an IMP that cannot serve says why", "[imp]")
{
    const Scratch scratch;
    auto missing = probe_setuid_imp(scratch / "no");
    CHECK(missing.error().message == scratch / "no: No such file or directory");
    CHECK(missing.error().errnum == ENOENT);
    CHECK(probe_setuid_imp(scratch.path.string()).error().message
          == scratch.path.string() + ": not a regular file");
    const std::string plain = scratch.file("plain", "", 0755);
    CHECK(probe_setuid_imp(plain).error().message
          == plain + ": not setuid root, and no IMP by its name");
    const std::string imp = scratch.file("flux-imp", "", 0755);
    CHECK(probe_setuid_imp(imp).error().message
          == imp + ": not setuid root"
                 + (geteuid() == 0 ? "" : ", and not only root may change it"));
    CHECK(probe_setuid_imp(imp).error().errnum == EPERM);
}

TEST_CASE("an IMP that is setuid root serves, if it can be executed", "[imp]")
{
    if (geteuid() != 0) {
        WARN("skipped: needs root to make a setuid root file");
        return;
    }
    const Scratch scratch;
    const std::string imp = scratch.file("imp", "", 04755);
    auto fit = probe_setuid_imp(imp);
    if (!fit) // the temporary directory may be on such a file system
        CHECK(fit.error().message == imp + ": its file system is mounted nosuid");
    const std::string locked = scratch.file("locked", "", 04600);
    CHECK(probe_setuid_imp(locked).error().message
          == locked + ": not executable by this user: Permission denied");
    const std::string other = scratch.file("flux-dat-imp", "", 04755);
    REQUIRE(chown(other.c_str(), 65534, 0) == 0);
    REQUIRE(chmod(other.c_str(), 04755) == 0);
    CHECK(probe_setuid_imp(other).error().message
          == other + ": not setuid root, and not only root may change it");
}

TEST_CASE("the bundled IMP is asked whether it allows this user", "[imp]")
{
    if (geteuid() != 0) {
        WARN("skipped: needs root to make a setuid root file");
        return;
    }
    const Scratch scratch;
    const auto asked = [&](const std::string& answer) {
        // Programs in a script's language never run setuid, which does not matter here.
        const std::string imp = scratch.file(
            "imp",
            "#!/bin/sh\n[ \"$*\" = 'check --json' ] && echo '" + answer + "'; exit 1\n",
            04755);
        auto fit = probe_bundled_imp(imp);
        std::filesystem::remove(imp);
        return fit ? "" : fit.error().message.substr(imp.size());
    };
    CHECK(asked(R"({"ok": true, "allowed": true, "problems": []})") == "");
    CHECK(asked(R"({"ok": false, "allowed": null, "problems": []})") == "");
    CHECK(asked(R"({"ok": true, "allowed": false, "problems": []})")
          == ": its configuration does not allow this user (exec.allowed-users)");
    CHECK(asked("{}") == ": its \"check\" says nothing");
    CHECK(asked("") == ": its \"check\" says nothing");
    CHECK(probe_bundled_imp(scratch / "no").error().errnum == ENOENT);
}

TEST_CASE("an IMP that does not answer is given up", "[imp]")
{
    const Scratch scratch;
    const std::string imp = scratch.file("imp", "#!/bin/sh\nexec sleep 1000\n", 0755);
    auto answer = ask_imp(imp, 0.05);
    CHECK(answer.error().message
          == imp + ": its \"check\" did not answer within 0.05 s");
    // It is not left behind, so there is no child to wait for.
    CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
}

TEST_CASE("what the bundled IMP answers is handed on", "[imp]")
{
    const Scratch scratch;
    const std::string imp = scratch.file(
        "imp", "#!/bin/sh\necho '{\"allowed\": true, \"problems\": []}'\n", 0755);
    auto answer = ask_imp(imp);
    REQUIRE(answer);
    CHECK(*answer == Json{{"allowed", true}, {"problems", Json::array()}});
    CHECK(ask_imp("/bin/true").error().message
          == "/bin/true: its \"check\" says nothing");
}
