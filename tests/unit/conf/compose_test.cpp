// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tests/unit/conf/scratch.h"

#include <algorithm>
#include <unistd.h>

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

using Lines = std::vector<std::string>;

Composed composed(const Inputs& inputs)
{
    auto result = compose(inputs);
    INFO((result ? "" : result.error().message));
    REQUIRE(result);
    return std::move(*result);
}

const Json parent = Json::parse(R"({
  "exec": {"imp": "/bin/sh"},
  "job-manager": {"prolog": {"command": ["/p"]}, "plugins": [{"load": "perilog.so"}]},
  "policy": {"jobspec": {"defaults": {"system": {"queue": "batch", "duration": "1h"}}}},
  "queues": {"batch": {}}
})");

} // namespace

TEST_CASE("the template alone makes a multi-user instance", "[compose]")
{
    const Scratch scratch;
    const auto conf = composed(plain_inputs(scratch));
    CHECK(conf.json() == Json::parse(R"({
        "access": {"allow-guest-user": true, "allow-root-owner": true},
        "exec": {"imp": "/bin/true"},
        "job-manager": {"plugins": [{"load": "perilog.so"}]},
        "ingest": {"validator": {"plugins": ["jobspec"]}},
        "tbon": {"topo": "kary:256"}})"));
    CHECK(conf.notices.empty());
    CHECK(conf.warnings.empty());
    CHECK_FALSE(conf.door_dir);
    CHECK(lint(conf));
    CHECK(conf.origin("tbon.topo")->source == "built-in multiuser.toml");
    CHECK(conf.origin("exec.imp")->source == "bundled IMP");
    CHECK_FALSE(conf.origin("no.such"));
}

TEST_CASE("an installed template goes before the built-in one", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.template_path = scratch / "multiuser.toml";
    CHECK(composed(inputs).origin("tbon.topo")->source == "built-in multiuser.toml");
    scratch.file("multiuser.toml", "[tbon]\ntopo = \"kary:2\"\n");
    CHECK(composed(inputs).origin("tbon.topo")->str()
          == scratch / "multiuser.toml:2:1");
    scratch.file("multiuser.toml", "[tbon\n");
    CHECK(
        compose_error(inputs, Exit::failed).starts_with(scratch / "multiuser.toml:1:"));
}

TEST_CASE("the template of the source is the one in the program", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    const Json builtin = composed(inputs).json();
    inputs.template_path = TEMPLATES "/multiuser.toml";
    const auto conf = composed(inputs);
    CHECK(conf.json() == builtin);
    CHECK(conf.origin("tbon.topo")->source == TEMPLATES "/multiuser.toml");
}

TEST_CASE("each source goes over the one before", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.parent = parent;
    inputs.parent_label = "parent instance (p)";
    scratch.file("conf.d/10.toml", "[tbon]\ntopo = \"kary:10\"\n"
                                   "[job-manager]\nprolog.per-rank = true\n"
                                   "plugins = [{load = \"site.so\"}]\n");
    scratch.file("conf.d/20.toml", "[tbon]\ntopo = \"kary:20\"\nzmqdebug = 1\n");
    auto conf = composed(inputs);
    CHECK(conf.json()["tbon"] == Json::parse(R"({"topo":"kary:20","zmqdebug":1})"));
    CHECK(conf.json()["job-manager"] == Json::parse(R"({
        "prolog": {"command": ["/p"], "per-rank": true},
        "plugins": [{"load": "perilog.so"}, {"load": "site.so"}]})"));
    inputs.conf = {"tbon.topo=kary:30", "tbon.topo=kary:40"};
    conf = composed(inputs);
    CHECK(conf.json()["tbon"] == Json::parse(R"({"topo":"kary:40","zmqdebug":1})"));
    CHECK(conf.origin("tbon.topo")->str() == "--conf tbon.topo=kary:40");
    CHECK(conf.origin("tbon.zmqdebug")->str() == scratch / "conf.d/20.toml:3:1");
    CHECK(conf.origin("job-manager.prolog.command")->str() == "parent instance (p)");
}

TEST_CASE("where the IMP comes from", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.parent = parent;
    const auto imp = [&] { return composed(inputs).json()["exec"]["imp"]; };
    CHECK(imp() == "/bin/true"); // bundled before the parent's

    inputs.probe_bundled_imp = [](const std::string& path) -> Result<> {
        return fail("{}: not setuid root", path);
    };
    auto conf = composed(inputs);
    CHECK(conf.json()["exec"]["imp"] == "/bin/sh"); // not fit: the parent's
    CHECK(conf.origin("exec.imp")->source == "parent instance");
    CHECK(conf.notices
          == Lines{"the bundled IMP is not used: /bin/true: not setuid root"});

    inputs.probe_bundled_imp = [](const std::string& path) -> Result<> {
        return fail_errno(ENOENT, path);
    };
    CHECK(composed(inputs).notices.empty()); // not installed: nobody's business
    inputs.parent = Json::object();
    CHECK_FALSE(composed(inputs).origin("exec.imp"));

    scratch.file("conf.d/imp.toml", "exec.imp = \"/site\"");
    CHECK(imp() == "/site");
    inputs.conf = {"exec.imp=/conf"};
    CHECK(imp() == "/conf");
    inputs.imp = "/option";
    conf = composed(inputs);
    CHECK(conf.json()["exec"]["imp"] == "/option");
    CHECK(conf.origin("exec.imp")->str() == "--imp");
    CHECK(conf.notices == Lines{"--imp goes over exec.imp (--conf exec.imp=/conf)"});
}

TEST_CASE("an IMP that will not serve guests is warned of", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.probe_imp = probe_setuid_imp;
    inputs.imp = scratch.file("flux-imp", "", 0755);
    CHECK(composed(inputs).warnings
          == Lines{"exec.imp (--imp): " + *inputs.imp + ": not setuid root"
                   + (geteuid() == 0 ? "" : ", and not only root may change it")
                   + "; guests' jobs will not "
                     "run"});
    // The bundled one is asked more, however it came to be chosen.
    inputs.probe_bundled_imp = [](const std::string& path) -> Result<> {
        return fail("{}: does not allow", path);
    };
    inputs.imp = inputs.bundled_imp;
    CHECK(composed(inputs).warnings
          == Lines{"exec.imp (--imp): /bin/true: does not allow; guests' jobs will not "
                   "run"});
    inputs.imp = "/nonexistent/imp"; // for lint to refuse
    CHECK(composed(inputs).warnings.empty());
}

TEST_CASE("what is inherited: --inherit, else the site's choice, else the default",
          "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.parent = parent;
    CHECK(composed(inputs).origin("job-manager.prolog"));
    CHECK_FALSE(composed(inputs).origin("queues"));
    scratch.file("conf.d/dat.toml", "[dat]\ninherit = [\"policy\", \"queues\"]\n");
    auto conf = composed(inputs);
    CHECK_FALSE(conf.origin("job-manager.prolog"));
    CHECK(conf.json()["queues"] == Json::parse(R"({"batch":{}})"));
    CHECK(conf.notices.empty());
    CHECK(lint(conf));
    inputs.inherit = Inherit{false, false, false, false, false};
    CHECK_FALSE(composed(inputs).origin("queues"));
}

TEST_CASE("an inherited default queue goes where there is no such queue", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.parent = parent;
    inputs.inherit = Inherit::parse({"policy"}).value();
    auto conf = composed(inputs);
    CHECK(conf.json()["policy"]
          == Json::parse(R"({"jobspec":{"defaults":{"system":{"duration":"1h"}}}})"));
    CHECK(
        conf.notices
        == Lines{"policy.jobspec.defaults.system.queue of parent instance is left out: "
                 "the DAT has no queue batch"});
    inputs.conf = {"queues.batch={}"}; // but stays where there is
    conf = composed(inputs);
    CHECK(conf.json()["policy"] == parent["policy"]);
    CHECK(conf.notices.empty());
}

TEST_CASE("queues without a default are told", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.conf = {"queues.a={}"};
    CHECK(composed(inputs).notices
          == Lines{"the queues have no default (policy.jobspec.defaults.system.queue): "
                   "every job must name its queue"});
}

TEST_CASE("what collides with the parent is kept if explicit, and warned of",
          "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    const std::string file =
        scratch.file("conf.d/x.toml", "[job-manager.housekeeping]\n");
    inputs.conf = {"exec.service=sdexec", "systemd.enable=true"};
    const auto conf = composed(inputs);
    CHECK(conf.origin("job-manager.housekeeping"));
    CHECK(conf.json()["exec"]["service"] == "sdexec");
    const std::string why = ": its systemd units have the names of the parent's on the "
                            "same nodes; jobs of both may end or hinder one another";
    CHECK(conf.warnings
          == Lines{"exec.service = \"sdexec\" (--conf exec.service=sdexec)" + why,
                   "job-manager.housekeeping (" + file + ":1:14)" + why});
    CHECK(lint(conf));
}

TEST_CASE("what will disappoint is warned of", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.parent = parent;
    inputs.conf = {"access.allow-root-owner=false"};
    const std::string refused =
        ": a prolog or epilog that asks this instance about its "
        "job as root is refused";
    CHECK(composed(inputs).warnings
          == Lines{"access.allow-root-owner is false (--conf "
                   "access.allow-root-owner=false)"
                   + refused});
    inputs.conf = {};
    inputs.template_path = scratch.file("t.toml", "");
    CHECK(composed(inputs).warnings
          == Lines{"access.allow-root-owner is not set (parent instance)" + refused});
    inputs = plain_inputs(scratch);
    inputs.conf = {"ingest.validator.disable=true"};
    CHECK(composed(inputs).warnings
          == Lines{"ingest.validator.disable (--conf ingest.validator.disable=true): "
                   "jobs of guests are not validated"});
}

TEST_CASE("the [dat] table is flux-dat's own", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    scratch.file("conf.d/dat.toml", "[dat]\ndoor-dir = \"/run/site\"\n");
    auto conf = composed(inputs);
    CHECK(conf.door_dir == "/run/site");
    CHECK_FALSE(conf.json().contains("dat"));
    inputs.conf = {"dat.door-dir=/run/mine"};
    CHECK(composed(inputs).door_dir == "/run/mine");
}

TEST_CASE("mistakes in [dat] are told with their place", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    const std::string file = scratch / "conf.d/dat.toml";
    const auto error = [&](const std::string& text) {
        scratch.file("conf.d/dat.toml", text);
        return compose_error(inputs, Exit::failed);
    };
    CHECK(error("[dat]\ndoor_dir = \"/x\"\n")
          == file
                 + ":2:1: unknown key dat.door_dir; [dat] has door-dir, inherit, warn, "
                   "close "
                   "and grace");
    CHECK(error("[dat]\ndoor-dir = 3\n")
          == file + ":2:1: dat.door-dir must be a string, not an integer");
    CHECK(error("[dat]\ndoor-dir = \"run\"\n")
          == file + ":2:1: dat.door-dir must be an absolute path, not 'run'");
    CHECK(error("[dat]\ndoor-dir = \"/x\\u0000y\"\n")
          == file + ":2:1: dat.door-dir must be an absolute path, not '/x?y'");
    CHECK(error("[dat]\ninherit = \"policy\"\n")
          == file + ":2:1: dat.inherit must be an array of strings");
    CHECK(error("[dat]\ninherit = [1]\n")
          == file + ":2:1: dat.inherit must be an array of strings");
    CHECK(
        error("[dat]\ninherit = [\"x\"]\n")
        == file
               + ":2:1: dat.inherit: cannot inherit 'x'; it is prolog, epilog, policy, "
                 "queues, resource or none");
    CHECK(error("dat = 1\n") == file + ":1:1: dat must be a table, not an integer");
    std::filesystem::remove(file);
    inputs.conf = {"dat.x=1"};
    CHECK(compose_error(inputs, Exit::usage)
          == "--conf dat.x=1: unknown key dat.x; [dat] has door-dir, inherit, warn, "
             "close "
             "and grace");
}

TEST_CASE("a wrong type is blamed on who wrote it", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.conf = {"access.allow-guest-user=True"};
    CHECK(compose_error(inputs, Exit::usage)
          == "--conf access.allow-guest-user=True: access.allow-guest-user must be a "
             "boolean, not a string");
    inputs.conf = {};
    inputs.parent = Json::parse(R"({"job-manager":{"prolog":"x"}})");
    CHECK(compose_error(inputs, Exit::failed)
          == "parent instance: job-manager.prolog must be a table, not a string");
    inputs.parent = Json::parse(R"({"policy":{"x":null}})");
    inputs.inherit = Inherit::parse({"policy"}).value();
    CHECK(compose_error(inputs, Exit::failed)
          == "parent instance: x: null has no place in a configuration; leave the key "
             "out");
}

TEST_CASE("a source that cannot be read ends it", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.conf = {scratch / "no.toml"};
    CHECK(compose_error(inputs, Exit::usage)
          == scratch / "no.toml: No such file or directory");
    scratch.file("conf.d/x.toml", "x");
    CHECK(
        compose_error(inputs, Exit::failed).starts_with(scratch / "conf.d/x.toml:1:"));
}

TEST_CASE("the example of a site's file composes", "[compose]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    std::filesystem::create_directory(scratch.path / "conf.d");
    std::filesystem::copy_file(TEMPLATES "/site.toml",
                               scratch.path / "conf.d/site.toml");
    const auto conf = composed(inputs);
    CHECK(lint(conf));
    CHECK(conf.warnings.empty());
    CHECK(conf.notices.empty());
    CHECK(conf.door_dir == "/run/flux");
    CHECK(conf.origin("access.private-mode")->source == scratch / "conf.d/site.toml");
}
