// SPDX-License-Identifier: LGPL-3.0-or-later
//
// "flux broker" in a job of the sandbox: the job becomes an instance. The process of
// rank 0 is the whole instance and hosts all ranks; the processes of the other ranks
// only stand for their nodes: a rank lives as long as its process does.
#pragma once

namespace fluxdat::sandbox {

// What the program does when it is called "flux" (argv[0]), which it is in the PATH of
// the sandbox's jobs. "flux broker" is taken here; every other command goes to the real
// flux that comes later in PATH. Gives the exit status.
//
// A 64-node job starts 64 of these at once: nothing may be set up before this is
// called.
int broker_main(int argc, char** argv);

// The IMP that the sandbox's configuration names, in the same directory, unless --conf
// names another: the program under this name. A multi-user instance has one, so that a
// DAT can be composed as on a real system; this one says that it runs nothing.
constexpr const char* imp_name = "flux-imp";
int imp_main();

} // namespace fluxdat::sandbox
