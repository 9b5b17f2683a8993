// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tests/unit/conf/scratch.h"

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

std::string refused(const Inputs& inputs, Exit exit = Exit::usage)
{
    auto composed = compose(inputs);
    INFO((composed ? "" : composed.error().message));
    REQUIRE(composed);
    auto result = lint(*composed);
    if (result)
        return "accepted";
    CHECK(result.error().exit == exit);
    return result.error().message;
}

std::string refused(const Scratch& scratch, const std::vector<std::string>& conf)
{
    auto inputs = plain_inputs(scratch);
    inputs.conf = conf;
    return refused(inputs);
}

} // namespace

TEST_CASE("lint: guests must be let in", "[lint]")
{
    const Scratch scratch;
    CHECK(refused(scratch, {"access.allow-guest-user=false"})
          == "--conf access.allow-guest-user=false: access.allow-guest-user is false: "
             "guests could not enter; remove the line or make it true");
    auto inputs = plain_inputs(scratch);
    const std::string file =
        scratch.file("conf.d/x.toml", "[access]\nallow-guest-user = false\n");
    CHECK(refused(inputs, Exit::failed).starts_with(file + ":2:1: access.allow-guest"));
    std::filesystem::remove(file);
    inputs.template_path = scratch.file("template.toml", "");
    CHECK(
        refused(inputs, Exit::failed)
        == "access.allow-guest-user is not set: guests could not enter; set it to true "
           "in the site's file or with --conf");
}

TEST_CASE("lint: there must be an IMP that can be executed", "[lint]")
{
    const Scratch scratch;
    auto inputs = plain_inputs(scratch);
    inputs.probe_bundled_imp = [](const std::string&) -> Result<> {
        return fail_errno(ENOENT, "");
    };
    CHECK(refused(inputs, Exit::failed)
          == "no IMP: guests' jobs could not run; give one with --imp, install the "
             "bundled flux-dat-imp setuid root, or set exec.imp");
    inputs.parent = Json::parse(R"({"exec":{"imp":"/nonexistent/imp"}})");
    CHECK(
        refused(inputs, Exit::failed)
        == "parent instance: exec.imp = '/nonexistent/imp': No such file or directory");
    inputs = plain_inputs(scratch);
    inputs.imp = "flux-imp";
    CHECK(refused(inputs) == "--imp: exec.imp = 'flux-imp': must be an absolute path");
    inputs.imp = "";
    CHECK(refused(inputs) == "--imp: exec.imp = '': must be an absolute path");
    inputs.imp = scratch.path.string();
    CHECK(refused(inputs)
          == "--imp: exec.imp = '" + scratch.path.string() + "': not a regular file");
    inputs.imp = scratch.file("imp", "", 0644);
    CHECK(refused(inputs)
          == "--imp: exec.imp = '" + *inputs.imp
                 + "': cannot be executed: Permission denied");
    inputs.imp.reset();
    inputs.conf = {"exec.imp=\"/bin\\u0000/sh\""};
    CHECK(refused(inputs).find("exec.imp = '/bin?/sh': ") != std::string::npos);
    inputs.conf = {"exec.imp=/bin/sh"};
    CHECK(refused(inputs) == "accepted");
}

TEST_CASE("lint: a prolog must have its plugin", "[lint]")
{
    const Scratch scratch;
    const std::string remove = "job-manager.plugins=[{remove = \"perilog.so\"}]";
    CHECK(refused(scratch, {"job-manager.prolog.command=[\"/p\"]", remove})
          == "--conf job-manager.prolog.command=[\"/p\"]: job-manager.prolog would not "
             "run: job-manager.plugins does not load perilog.so");
    CHECK(refused(scratch, {"job-manager.epilog={}", "job-manager.plugins=[]"})
          == "--conf job-manager.epilog={}: job-manager.epilog would not run: "
             "job-manager.plugins does not load perilog.so");
    CHECK(refused(scratch, {"job-manager.prolog={}"}) == "accepted");
    CHECK(refused(scratch, {remove}) == "accepted"); // nothing to run
}

TEST_CASE("lint: a DAT does not bootstrap from configuration", "[lint]")
{
    const Scratch scratch;
    CHECK(
        refused(scratch, {"bootstrap.default_port=8050"})
        == "--conf bootstrap.default_port=8050: [bootstrap] has no place in a DAT: its "
           "brokers find one another through the parent; remove it");
}

TEST_CASE("lint: the default queue must exist", "[lint]")
{
    const Scratch scratch;
    const std::string key = "policy.jobspec.defaults.system.queue";
    CHECK(refused(scratch, {key + "=batch", "queues.debug={}"})
          == "--conf " + key + "=batch: " + key
                 + " is 'batch', but there is no [queues.batch]");
    CHECK(refused(scratch, {key + "=batch"}).ends_with("no [queues.batch]"));
    CHECK(refused(scratch, {key + "=\"a\\\"b\"", "[queues]\n\"a\\\"b\" = {}\n"})
          == "accepted");
}

TEST_CASE("lint: sdexec needs systemd", "[lint]")
{
    const Scratch scratch;
    CHECK(refused(scratch, {"exec.service=sdexec"})
          == "--conf exec.service=sdexec: exec.service is 'sdexec', but systemd.enable "
             "is "
             "not true: no job could run");
    CHECK(refused(scratch, {"exec.service=rexec"}) == "accepted");
}

TEST_CASE("lint: brokers must know the topology", "[lint]")
{
    const Scratch scratch;
    for (const std::string topology :
         {"nosuch", "nosuch:1", "kary", "kary:", "kary:x", "kary:-1", "kary:2 ",
          "KARY:2", "mincrit:x", "mincrit:", "binomial:2", "custom:1", ":",
          "kary:99999999999"})
        CHECK(
            refused(scratch, {"tbon.topo=\"" + topology + "\""})
            == "--conf tbon.topo=\"" + topology + "\": tbon.topo = '" + topology
                   + "': no topology that brokers know; use kary:K, mincrit, mincrit:K "
                     "or binomial");
    for (const std::string topology :
         {"kary:0", "kary:256", "mincrit", "mincrit:4", "binomial", "custom"})
        CHECK(refused(scratch, {"tbon.topo=" + topology}) == "accepted");
}
