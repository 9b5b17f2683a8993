// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The configuration of a DAT: composed from the template, the parent's configuration,
// the site's files and the command line, in this order, each over the one before;
// explained, key by key; checked before anything is submitted. flux-config-dat(5).
//
//   template    templates/multiuser.toml, the installed one or the copy in the program
//   IMP         exec.imp: the bundled IMP where it is fit, else the parent's
//   inherited   tables of the parent that the inherit set names
//   site        SYSCONFDIR/flux/dat/conf.d/*.toml, in order of name
//   --conf      in order of the command line
//   --imp       last: nothing overrides it
//
// Tables merge key by key; arrays of jobtap plugin directives merge by `load`;
// everything else replaces. The [dat] table is flux-dat's own and is taken out.
//
// Nothing here talks to Flux, and nothing throws.
#pragma once

#include "lib/conf/value.h"
#include "lib/result.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fluxdat::conf {

// What of the parent's configuration a DAT takes over.
struct Inherit {
    bool prolog = true;  // job-manager.prolog, with perilog.so and job-manager.perilog
    bool epilog = true;  // job-manager.epilog, likewise
    bool policy = false; // policy
    bool queues = false; // queues, without the parent's host lists
    bool resource =
        false; // of resource, what does not name the parent's ranks or hosts

    // Names as --inherit takes them, comma separated: prolog, epilog, policy, queues,
    // resource; or none alone. An empty or unknown name is a usage error that lists
    // the known ones.
    static Result<Inherit> parse(const std::vector<std::string>& lists);
};

struct Inputs {
    // The template. Empty, or a path where there is no file: the copy in the program.
    std::string template_path; // default: DATADIR/flux-dat/multiuser.toml

    // The parent's configuration as `config.get` answers, an empty object if none, and
    // how to call the parent in messages: "parent instance (local:///run/flux/local)".
    Json parent = Json::object();
    std::string parent_label = "parent instance";

    // As --inherit said; without it the site's dat.inherit, else the default.
    std::optional<Inherit> inherit;

    std::optional<std::string> imp; // --imp

    // The bundled IMP, and whether it can serve here; the error says why not. ENOENT
    // (not installed) goes without a notice.
    std::string bundled_imp; // default: LIBEXECDIR/flux-dat/flux-dat-imp
    std::function<Result<>(const std::string&path)>
        probe_bundled_imp, // default: the function of that name, below
        probe_imp;         // any other; default: probe_setuid_imp

    // The site's files are *.toml in this directory; there may be none.
    std::string site_directory; // default: SYSCONFDIR/flux/dat/conf.d

    // The arguments of --conf in their order: several lines or "{...}" are TOML or JSON
    // text; else KEY=VALUE; else a file *.toml or *.json; else NAME, looked up in the
    // directories of search_path as NAME.toml, NAME.json (flux-alloc(1)).
    std::vector<std::string> conf;
    std::vector<std::string> search_path;

    // Paths as installed; search path from XDG_CONFIG_HOME, HOME, XDG_CONFIG_DIRS.
    Inputs();
};

// Is the IMP a regular file of root's, setuid, executable by this process, and on a
// file system that honours setuid? The error is the reason why not, as in "PATH: not
// setuid root", with EPERM for that, EACCES where this process may not execute it, and
// ENOTSUP where setuid is not honoured.
Result<> probe_setuid_imp(const std::string& path);
// By its name it is an IMP, of flux-dat or of flux-security.
bool is_named_as_imp(std::string_view path);
// And nobody but root can have put it there, or changed it: of no other program it may
// be said that it should be setuid root.
bool is_installed_imp(const std::string& path);

// How long an IMP may take to answer; on a loaded node one takes some milliseconds.
constexpr double imp_answer_time_max = 10; // seconds

// What `PATH check --json` of the bundled IMP answers, flux-dat-imp(8): an object with
// "allowed" and "problems". An error where another program answers, or none in time.
Result<Json> ask_imp(const std::string& path, double seconds = imp_answer_time_max);

// probe_setuid_imp(), and does its configuration allow this user to run guests' jobs?
// It is asked, and so this may take some milliseconds.
Result<> probe_bundled_imp(const std::string& path);

// A value as it was written, and where.
struct Setting {
    std::string text;
    Origin origin;
};

// A configuration ready for a broker, and where each of its values came from.
class Composed
{
public:
    // For the broker: attributes.system.files' conf.json.
    Json json() const;

    // For people: TOML that parses to the same, each key with its origin in a trailing
    // comment.
    std::string toml() const;

    // {"access.allow-guest-user": {"value": true, "origin": "FILE:LINE:COLUMN"}, ...}:
    // every key that is not a table; plugin directives under
    // "job-manager.plugins[0]"...
    Json explained() const;

    // Where the value at a dotted key was written; nullptr if there is no such key.
    const Origin* origin(std::string_view key) const;

    // What was left out or decided, and what will likely disappoint; for stderr, one
    // line each. Not errors.
    std::vector<std::string> notices;
    std::vector<std::string> warnings;

    // [dat]
    std::optional<std::string> door_dir; // absolute
    // How its window ends, of start's options of these names; not looked into here.
    std::optional<Setting> warn, close, grace;

    Value root; // a table
};

// Reads the files, merges, and checks the types of the keys that flux-config(5) knows.
// An error names the origin; its exit status is Exit::usage where the command line is
// to blame, else Exit::failed.
Result<Composed> compose(const Inputs& inputs);

// Whether this one of the warnings says that the IMP, as it is on this node, will run
// no guests' jobs.
bool is_of_imp(std::string_view warning);

// Refuses what makes no DAT: guests shut out, no IMP or one that cannot be executed, a
// prolog or epilog without its plugin, a default queue that does not exist, a
// [bootstrap] table... The error names the origin of the offending line.
Result<> lint(const Composed& composed);

} // namespace fluxdat::conf
