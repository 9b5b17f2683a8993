// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What only a node can tell: whether it has what a rank of a DAT needs. The hidden
// command `flux-dat check-node QUESTION` runs there, through the parent's subprocess
// service (RFC 42), with the rights of whoever asks, and prints one line of JSON. It
// changes nothing: the door that it tries out is removed again, and one that a killed
// check left behind is swept as any other.
#pragma once

#include "lib/dat/check.h"

#include <sys/types.h>

namespace fluxdat::dat {

// What is asked. Parts that are empty are not looked at.
struct NodeQuestion {
    std::string imp;                         // exec.imp of the DAT
    std::string job_shell;                   // exec.job-shell; empty: Flux's own
    std::vector<std::string> prolog, epilog; // commands, as of job-manager.prolog
    bool munge = false;
    std::string credential; // a J (RFC 39) signed by MUNGE where the question is from
    bool door = false;
    std::optional<std::string> door_dir; // as for `start`
    bool open = false;                   // a door for everybody takes no ACL
    std::uint64_t door_id = 0;           // stands for a job id in the door's name
    std::uint32_t rank = 0;
    std::vector<uid_t> users; // of the DAT's guest list
    std::vector<gid_t> groups;
    unsigned lifetime = 60; // seconds after which nobody waits for the answer any more
};
Json to_json(const NodeQuestion& question);
Result<NodeQuestion> node_question_from_json(const Json& json);

struct NodeAnswer {
    std::string version;    // of flux-dat there
    double time = 0;        // the node's clock, in seconds since the epoch
    std::string credential; // a J that was signed there
    std::vector<Verdict> verdicts;
};
Json to_json(const NodeAnswer& answer);
Result<NodeAnswer> node_answer_from_json(const Json& json);

// Looks. Takes some milliseconds, but for an IMP that does not answer.
NodeAnswer check_node(const NodeQuestion& question);

// The hidden command. Exit status 0, or 1 where the question is none.
int check_node_command(const std::string& question);

// Whether this host's munged vouches for a J that `user` signed elsewhere. The error is
// the reason why not.
Result<> accept_credential(const std::string& credential, uid_t user);

} // namespace fluxdat::dat
