// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/dat/check_imp.h"
#include "lib/dat/check_node.h"

#include "tests/unit/conf/scratch.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::dat;

namespace {

ImpConfig config_of(const std::string& text)
{
    ImpConfig read;
    read.config = imp::read_config_text(text, read.problems);
    read.pattern = "conf.d/*.toml";
    return read;
}

const std::string good = "[exec]\n"
                         "allowed-users = [\"flux\"]\n"
                         "allowed-shells = [\"/bin/sh\"]\n"
                         "[sign]\n"
                         "allowed-types = [\"munge\"]\n"
                         "[run.prolog]\n"
                         "allowed-users = [\"flux\"]\n"
                         "allowed-environment = [\"FLUX_*\"]\n"
                         "path = \"/bin/true\"\n";

std::vector<Verdict> looked_at(const std::string& text,
                               const std::string& user = "flux",
                               const std::string& shell = "")
{
    return check_imp_config(config_of(text), Json(), user, shell);
}

Verdict prolog(const std::vector<std::string>& command, const std::string& text = good,
               const std::string& user = "flux")
{
    return check_perilog("prolog", command, command[0], config_of(text), user);
}

} // namespace

TEST_CASE("question and answer survive the way", "[check_node]")
{
    NodeQuestion question;
    question.imp = "/imp";
    question.job_shell = "/shell";
    question.prolog = {"/imp", "run", "prolog"};
    question.munge = question.door = true;
    question.credential = "J";
    question.door_dir = "/run/flux";
    question.door_id = std::uint64_t{1} << 63;
    question.rank = 7;
    question.users = {1001, 1002};
    question.groups = {100};
    question.lifetime = 130;
    auto back = node_question_from_json(to_json(question));
    REQUIRE(back);
    CHECK(to_json(*back) == to_json(question));
    CHECK(back->door_id == question.door_id);
    CHECK(node_question_from_json({{"version", 2}}).error().message
          == "the question is of another version of flux-dat");

    NodeAnswer answer{"0.1.0", 12.5, "J", {passed("imp", "there")}};
    auto answered = node_answer_from_json(to_json(answer));
    REQUIRE(answered);
    CHECK(to_json(*answered) == to_json(answer));
    for (auto wrong :
         {R"({})", R"({"program": "1"})", R"({"program": "1", "checks": [1]})"})
        CHECK_FALSE(node_answer_from_json(Json::parse(wrong)));
}

TEST_CASE("where an IMP's configuration is", "[check_node]")
{
    unsetenv(imp_pattern_variable);
    CHECK(imp_pattern_of("/usr/libexec/flux/flux-imp")
          == "/etc/flux/imp/conf.d/*.toml");
    CHECK(imp_pattern_of("/opt/flux/libexec/flux/flux-imp")
          == "/opt/flux/etc/flux/imp/conf.d/*.toml");
    setenv(imp_pattern_variable, "/elsewhere/*.toml", 1);
    CHECK(imp_pattern_of("/usr/libexec/flux/flux-imp") == "/elsewhere/*.toml");
    unsetenv(imp_pattern_variable);
}

TEST_CASE("an IMP's configuration that lets a DAT's owner run guests' jobs",
          "[check_node]")
{
    auto all = looked_at(good, "flux", "/bin/sh");
    REQUIRE(all.size() == 1);
    CHECK(all[0] == passed("imp-config", "flux may run guests' jobs"));
}

TEST_CASE("an IMP's configuration in which something is missing", "[check_node]")
{
    auto nobody = looked_at(good, "bob");
    CHECK(nobody[0].seen
          == "exec.allowed-users in text has no bob, who so cannot run guests' jobs");
    CHECK(nobody[0].remedy == "add \"bob\" to exec.allowed-users in text");
    auto shell = looked_at(good, "flux", "/usr/libexec/flux/flux-shell");
    REQUIRE(shell.size() == 2);
    CHECK(
        shell[1].seen
        == "exec.allowed-shells in text has no /usr/libexec/flux/flux-shell, the DAT's "
           "job shell");
    auto gone = looked_at("[exec]\nallowed-users = [\"flux\"]\n"
                          "allowed-shells = [\"/no/shell\"]\n"
                          "[sign]\nallowed-types = [\"munge\"]\n");
    CHECK(gone.back().seen
          == "exec.allowed-shells in text has no program that is there");
    auto unsigned_ = looked_at("[exec]\nallowed-users = [\"flux\"]\n"
                               "allowed-shells = [\"/bin/sh\"]\n"
                               "[sign]\nallowed-types = [\"none\"]\n");
    CHECK(
        unsigned_.back().seen
        == "text: sign.allowed-types has no munge, so that no guest's job is accepted");
    auto no_sign = looked_at("[exec]\nallowed-users = [\"flux\"]\n"
                             "allowed-shells = [\"/bin/sh\"]\n");
    CHECK(no_sign.back().seen.find("there is no [sign]") != std::string::npos);
    CHECK(no_sign.back().found == Found::failed);
}

TEST_CASE("an IMP's configuration that cannot be read is told, and no more",
          "[check_node]")
{
    auto broken = looked_at("[exec\n");
    REQUIRE(broken.size() == 1);
    CHECK(broken[0].found == Found::failed);
    CHECK(broken[0].seen.starts_with("text:1: not TOML"));
    auto read = config_of(good);
    read.unreadable = "conf.d/a.toml: Permission denied";
    auto hidden = check_imp_config(read, Json(), "flux", "");
    REQUIRE(hidden.size() == 1);
    CHECK(hidden[0]
          == skipped("imp-config",
                     "flux cannot read it: conf.d/a.toml: Permission denied",
                     "look as root: flux-dat-imp check"));
}

TEST_CASE("what the bundled IMP says counts", "[check_node]")
{
    auto answer = Json::parse(R"json({"allowed": true, "problems": [
        {"severity": "note", "file": "a.toml", "line": 1, "message": "x"},
        {"severity": "warning", "file": null, "line": null,
         "message": "flux-dat-imp is not installed setuid root (chown root, chmod 4755)"},
        {"severity": "warning", "file": "a.toml", "line": 2, "message": "odd"}]})json");
    auto all = check_imp_config(config_of(good), answer, "flux", "");
    REQUIRE(all.size() == 2);
    CHECK(all[0] == warned("imp-config", "a.toml:2: odd"));
    CHECK(all[1].found == Found::ok);
    answer["allowed"] = false;
    CHECK(check_imp_config(config_of(good), answer, "flux", "")[1].found
          == Found::failed);
    answer["problems"][2] = {
        {"severity", "warning"},
        {"file", "b.toml"},
        {"line", 3},
        {"message", "[exec] takes the place of the whole of it in a.toml"}};
    auto twice = check_imp_config(config_of(good), answer, "flux", "");
    REQUIRE(twice.size() == 1);
    CHECK(twice[0]
          == failed("imp-config",
                    "b.toml:3: [exec] takes the place of the whole of it in a.toml",
                    "put both into one file; a later file replaces whole tables"));
}

TEST_CASE("a prolog that a DAT's owner can run", "[check_node]")
{
    CHECK(prolog({"/bin/true"}) == passed("prolog", "/bin/true"));
    CHECK(prolog({"sh", "-c", "x"}).found == Found::ok);
    // The IMP itself may not be installed where this runs.
    if (access("/usr/libexec/flux/flux-imp", X_OK) == 0)
        CHECK(prolog({"/usr/libexec/flux/flux-imp", "run", "prolog"})
              == passed("prolog", "/bin/true, [run.prolog] in text"));
}

TEST_CASE("a prolog that cannot be run", "[check_node]")
{
    CHECK(prolog({"/no/prolog"})
          == failed("prolog", "/no/prolog is not there or not executable",
                    "install it, or change job-manager.prolog.command"));
    CHECK(prolog({"no-such-program-anywhere"}).found == Found::failed);
    const Scratch scratch;
    const std::string imp = scratch.file("flux-imp", "#!/bin/sh\n", 0755);
    CHECK(prolog({imp + "x/flux-imp", "run", "prolog"}).found == Found::failed);
    CHECK(
        prolog({imp, "run", "prologue"})
        == failed("prolog", "the IMP knows no [run.prologue] in conf.d/*.toml",
                  "add [run.prologue] there, with path, allowed-users = [\"flux\"] and "
                  "allowed-environment = [\"FLUX_*\"]"));
    CHECK(prolog({imp, "run", "prolog"}, good, "bob")
          == failed("prolog", "run.prolog.allowed-users in text has no bob",
                    "add \"bob\" to run.prolog.allowed-users in text"));
    const std::string plain = scratch.file("prolog", "", 0644);
    auto text = "[run.prolog]\nallowed-users = [\"flux\"]\npath = \"" + plain + "\"\n";
    CHECK(prolog({imp, "run", "prolog"}, text)
          == failed("prolog",
                    "run.prolog.path in text: " + plain
                        + " is not there or not executable",
                    "install it, chmod 755 " + plain));
    auto read = config_of(good);
    read.unreadable = "a.toml: Permission denied";
    CHECK(check_perilog("prolog", {imp, "run", "prolog"}, imp, read, "flux").found
          == Found::skipped);
}

TEST_CASE(
    "a prolog that another IMP runs is looked up in the configuration of that one",
    "[check_node]")
{
    const Scratch scratch;
    const std::string other = scratch.file("libexec/flux/flux-imp", "", 0755);
    auto verdict = check_perilog("prolog", {other, "run", "prolog"}, "/no/flux-dat-imp",
                                 config_of(good), "flux");
    CHECK(verdict.found == Found::failed);
    CHECK(verdict.seen
          == "the IMP knows no [run.prolog] in "
                 + scratch / "etc/flux/imp/conf.d/*.toml");
}

TEST_CASE("an IMP that is missing or not setuid has a remedy", "[check_node]")
{
    const Scratch scratch;
    auto missing = check_imp_program(scratch / "no");
    CHECK(missing.found == Found::failed);
    CHECK(missing.remedy
          == "install it there: flux-dat has flux-dat-imp, flux-security flux-imp; or "
             "name another one with --imp");
    const std::string plain = scratch.file("flux-imp", "", 0755);
    auto verdict = check_imp_program(plain);
    CHECK(verdict.seen == plain + ": not setuid root");
    const std::string install = "install it as root, where nobody else may write; or "
                                "name another one with --imp";
    CHECK(verdict.remedy == (geteuid() == 0 ? "chmod 4755 " + plain : install));
    // What others may exchange must not become setuid root either.
    std::filesystem::permissions(scratch.path, std::filesystem::perms(0777));
    CHECK(check_imp_program(plain).remedy == install);
}

TEST_CASE("nobody is told to make just any program setuid root", "[check_node]")
{
    const Scratch scratch;
    for (int mode : {0755, 0600}) {
        auto verdict = check_imp_program(scratch.file("true", "", mode));
        CHECK(verdict.found == Found::failed);
        CHECK(verdict.seen.ends_with(": not setuid root, and no IMP by its name"));
        CHECK(verdict.remedy.starts_with("name an IMP with --imp"));
        CHECK(verdict.remedy.find("chmod") == std::string::npos);
    }
    if (auto su = check_imp_program("/bin/su"); geteuid() == 0) {
        CHECK(su.found == Found::warning);
        CHECK(su.seen == "/bin/su, setuid root, but by its name no IMP");
    }
}

TEST_CASE("a door is tried out, and nothing of it stays", "[check_node]")
{
    const Scratch scratch;
    std::filesystem::permissions(scratch.path, std::filesystem::perms(0755));
    NodeQuestion question;
    question.door = true;
    question.door_dir = scratch.path.string();
    question.open = true; // not every file system has ACLs
    question.door_id = std::uint64_t{1} << 63 | 5;
    auto answer = check_node(question);
    REQUIRE(answer.verdicts.size() == 1);
    CHECK(answer.verdicts[0]
          == passed("door-dir", scratch.path.string() + ", for everybody"));
    CHECK(std::filesystem::is_empty(scratch.path));
    question.door_dir = scratch.path.string() + "/no";
    auto missing = check_node(question);
    CHECK(missing.verdicts[0].found == Found::failed);
    CHECK(missing.verdicts[0].remedy.starts_with("install -d -m 755 -o "));
    question.door_dir = scratch.path.string() + "/" + std::string(90, 'x');
    std::filesystem::create_directory(*question.door_dir);
    std::filesystem::permissions(*question.door_dir, std::filesystem::perms(0755));
    auto longer = check_node(question);
    CHECK(longer.verdicts[0].seen.find("is the most") != std::string::npos);
    CHECK(longer.verdicts[0].remedy
          == "choose a shorter --door-dir than " + *question.door_dir);
}
