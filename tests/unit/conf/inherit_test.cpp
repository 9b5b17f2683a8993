// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/conf/inherit.h"

#include <catch2/catch.hpp>

using namespace fluxdat;
using namespace fluxdat::conf;

namespace {

const Json parent = Json::parse(R"({
  "access": {"allow-guest-user": true},
  "bootstrap": {"hosts": [{"host": "a[1-4]"}]},
  "exec": {"imp": "/usr/libexec/flux/flux-imp"},
  "job-manager": {
    "inactive-num-limit": 10,
    "plugins": [
      {"load": "/usr/lib/flux/job-manager/plugins/perilog.so", "conf": {"x": 1}},
      {"load": "mf_priority.so"}
    ],
    "prolog": {"command": ["/p"], "per-rank": true},
    "epilog": {"command": ["/e"]},
    "perilog": {"log-ignore": ["x"]}
  },
  "policy": {"limits": {"duration": "4h"}},
  "queues": {"batch": {"hosts": "a[1-2]"}, "debug": {"requires": ["debug"]}},
  "resource": {"path": "/R", "exclude": "a1", "norestrict": true, "verify": false,
               "rediscover": true}
})");

Inherited taken(const std::vector<std::string>& names, const Json& from = parent)
{
    auto what = Inherit::parse(names);
    REQUIRE(what);
    auto inherited = inherit(from, "parent instance (p)", *what);
    REQUIRE(inherited);
    return std::move(*inherited);
}

} // namespace

TEST_CASE("what to inherit is a list of names", "[inherit]")
{
    auto what = Inherit::parse({"policy,queues", "resource"});
    REQUIRE(what);
    CHECK_FALSE(what->prolog);
    CHECK_FALSE(what->epilog);
    CHECK(what->policy);
    CHECK(what->queues);
    CHECK(what->resource);
    CHECK_FALSE(Inherit::parse({"none"})->prolog);
    CHECK(Inherit{}.prolog); // the default
    CHECK(Inherit{}.epilog);
    CHECK_FALSE(Inherit{}.policy);
    const std::string known =
        "; it is prolog, epilog, policy, queues, resource or none";
    CHECK(Inherit::parse({"prologue"}).error().message
          == "cannot inherit 'prologue'" + known);
    CHECK(Inherit::parse({""}).error().message == "cannot inherit ''" + known);
    CHECK(Inherit::parse({"prolog,"}).error().message == "cannot inherit ''" + known);
    CHECK(Inherit::parse({"none,prolog"}).error().message
          == "cannot inherit 'none' together with other tables");
    CHECK(Inherit::parse({"x"}).error().exit == Exit::usage);
}

TEST_CASE("a prolog comes with its plugin", "[inherit]")
{
    auto inherited = taken({"prolog"});
    CHECK(inherited.tables.json() == Json::parse(R"({"job-manager": {
        "prolog": {"command": ["/p"], "per-rank": true},
        "perilog": {"log-ignore": ["x"]},
        "plugins": [{"load": "perilog.so", "conf": {"x": 1}}]}})"));
    CHECK(inherited.tables.find("job-manager.prolog.command")->origin.str()
          == "parent instance (p)");
    CHECK(inherited.notices.empty());
    CHECK(taken({"prolog,epilog"}).tables.json()["job-manager"]["plugins"].size() == 1);
    CHECK(taken({"epilog"}, Json::object()).tables.json() == Json::object());
    CHECK(taken({"epilog"}, Json::parse(R"({"job-manager":{"epilog":{},"plugins":3}})"))
              .tables.json()["job-manager"]["plugins"]
          == Json::parse(R"([{"load":"perilog.so"}])"));
}

TEST_CASE("queues come without the parent's hosts", "[inherit]")
{
    auto inherited = taken({"queues"});
    CHECK(inherited.tables.json()
          == Json::parse(R"({"queues":{"batch":{},"debug":{"requires":["debug"]}}})"));
    CHECK(
        inherited.notices
        == std::vector<std::string>{
            "queues.batch.hosts of parent instance (p) is left out: it names hosts of "
            "the parent; the queue has all nodes of the DAT"});
}

TEST_CASE("of resource comes what is not about the parent's nodes", "[inherit]")
{
    auto inherited = taken({"resource"});
    CHECK(inherited.tables.json()
          == Json::parse(R"({"resource":{"norestrict":true,"verify":false}})"));
    REQUIRE(inherited.notices.size() == 3);
    CHECK(inherited.notices[0]
          == "resource.exclude of parent instance (p) is left out: it is about the "
             "parent's own nodes and ranks");
}

TEST_CASE("policy comes whole, nothing else by itself", "[inherit]")
{
    CHECK(taken({"policy"}).tables.json()
          == Json::parse(R"({"policy":{"limits":{"duration":"4h"}}})"));
    CHECK(taken({"none"}).tables.json() == Json::object());
}

TEST_CASE("what names systemd units is left out with a notice", "[inherit]")
{
    const Json systemd = Json::parse(R"({
      "exec": {"service": "sdexec", "sdexec-properties": {"MemoryMax": "90%"}},
      "systemd": {"enable": true},
      "job-manager": {"housekeeping": {}}})");
    auto inherited = taken({"prolog,epilog,policy,queues,resource"}, systemd);
    CHECK(inherited.tables.json() == Json::object());
    const std::string why =
        " of parent instance (p) is left out: its systemd units would "
        "have the names of the parent's on the same nodes";
    CHECK(inherited.notices
          == std::vector<std::string>{"exec.service = \"sdexec\"" + why,
                                      "job-manager.housekeeping" + why});
    CHECK(taken({"none"}, systemd).notices.empty());
}

TEST_CASE("a parent that answers nonsense is told, not trusted", "[inherit]")
{
    const Inherit all{true, true, true, true, true};
    for (const char* text :
         {"null", "3", "[]", R"({"job-manager":3,"resource":[],"exec":"x"})"}) {
        INFO(text);
        CHECK(inherit(Json::parse(text), "p", all));
        CHECK_FALSE(*inherit_imp(Json::parse(text), "p"));
    }
    CHECK(inherit(Json::parse(R"({"policy":{"x":null}})"), "p", all).error().message
          == "p: x: null has no place in a configuration; leave the key out");
    CHECK(inherit_imp(Json::parse(R"({"exec":{"imp":null}})"), "p").error().message
          == "p: null has no place in a configuration; leave the key out");
}

TEST_CASE("the parent's IMP is a layer of its own", "[inherit]")
{
    auto imp = inherit_imp(parent, "parent instance (p)");
    REQUIRE(imp);
    REQUIRE(*imp);
    CHECK((*imp)->json()
          == Json::parse(R"({"exec":{"imp":"/usr/libexec/flux/flux-imp"}})"));
    CHECK_FALSE(*inherit_imp(Json::object(), "p"));
    auto shell = inherit_job_shell(
        Json::parse(R"({"exec":{"job-shell":"/libexec/shell"}})"), "p");
    REQUIRE(shell);
    REQUIRE(*shell);
    CHECK((*shell)->find("exec.job-shell"));
    CHECK_FALSE(*inherit_job_shell(parent, "p"));
}
