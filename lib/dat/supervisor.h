// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The supervisor: the initial program of a DAT, on its rank 0.
//
//     flux-dat supervise DAT-FILE
//
// (In an instance that was adopted, adopt.h, it is a process that belongs to nobody,
// and the ways to the sockets have been opened when it is started: what is said here of
// doors holds for these. There is no file; what would be in it is the argument.)
//
// That it runs means that every rank is up: a broker starts its initial program when
// all ranks have joined. That a rank is up means that its launcher made its door. So
// the supervisor begins by posting the record with state "ready", which is what `start`
// waits for, and then serves `<owneruid>-dat-<jobid>` in the parent instance:
//
//     .status {}               -> {"ranks":[{"rank","host","door","wrong":[..],
//                                   "applied","reason","warnings":[..]}..],
//                                  "jobs":JOBS, "imp":{"path","asks_guest_list"},
//                                   "guests":{..}, "evictor_fault"}    owner, managers
//     .jobs {}                 -> {"pending","running","done","failed",
//                                  "canceled"}: JOBS                  owner, managers
//     .history {}              -> {"changes":[..]}                    owner, managers
//     .guests CHANGE           -> {"generation","everywhere","granted","revoked",
//                                  "open","evictor_fault","ranks":[..]}  the same
//     .admission {}            -> {"name","owner","state","nodelist","expiration",
//                                  "uri"}, or EPERM                   whoever is let in
//     .undo {}                 -> {"failed"}, of a DAT that was adopted   owner
//     .stop {"grace":SECONDS}  -> {}, and the DAT ends (shutdown.h)   owner
//
// CHANGE, the history and the guests are as changes.h has them; a manager may change
// users and groups only. The answer to a change comes when it is in force on all ranks,
// or has failed on some (doors.h).
//
// "evictor_fault" says why jobs of those who are revoked are not cancelled at the
// moment; it is empty where they are (evict.h).
//
// A handler checks the userid that the parent's broker stamped on the request: the
// DAT's owner, or the parent instance's (RFC 12).
//
// It is two processes. The outer one does nothing but start the inner one, again if it
// dies, so that a crash of the inner one does not end the DAT (whose end is the end of
// its initial program). The inner one keeps nothing that it cannot read again: what it
// must know stands in the record. It exits with 0 when the DAT shall end.
//
// Where the connection to the parent's broker is lost, the inner process connects again
// and serves again; the DAT does not notice. Flux (0.88) does not let it come to that
// when the broker itself dies on this node, since that is to it a node that failed: it
// ends the DAT's job. The DAT's other nodes do not need the parent's broker
// (tests/flux/test_restart.py).
#pragma once

#include <string>

namespace fluxdat::dat {

// The outer process. Gives the exit status of the initial program.
int supervise(const std::string& program, const std::string& dat_file);

// The same as a process that belongs to nobody, for a DAT that was adopted, whose
// initial program is somebody else's. Returns when it has been started; FLUX_URI must
// name the DAT's broker.
int supervise_detached(const std::string& program, const std::string& dat_file);

// The inner process: `flux-dat supervise --worker DAT-FILE`.
int supervise_worker(const std::string& dat_file);

} // namespace fluxdat::dat
