// SPDX-License-Identifier: LGPL-3.0-or-later
//
// What the reader, the unprivileged half of the IMP, makes of `options` and `R_local`
// in the input of exec, for the privileged half to enforce. The keys it writes, and
// what is accepted of them there, are in lib/imp/contain.h.
//
//     {
//       "J": "...",
//       "options": {"DevicePolicy": "closed", "DeviceAllow": [["/dev/nvidia0", "rw"]]},
//       "R_local": {"cpu": [0, 1], "gpu": [0], "memory": ["2G"]}
//     }
//
// options: RFC 15. Keys that are not known are ignored.
//
// R_local: a table of types of resource, each a list of what the job got here. Another
// type than these is refused: it would be a promise that nobody keeps.
//   cpu     logical ids of cores, as in R (RFC 20): hwloc(7)'s logical index on the
//           whole machine, also of what a cpuset takes away. A core stands for all its
//           hardware threads. At least one.
//   gpu     logical ids of GPUs, in the order of their PCI addresses, as Flux has them
//           (CUDA_DEVICE_ORDER=PCI_BUS_ID). [] is no GPU. They are enforced by denying
//           the device nodes of all other GPUs of this host: those that the drivers
//           nvidia, amdgpu, i915 and xe serve. Nodes that all GPUs share
//           (/dev/nvidiactl, /dev/kfd) are left; they give no access to a GPU whose own
//           nodes are denied. A GPU whose nodes are not found is reported
//           (R_local.unenforced.N).
//   memory  amounts, which are added up: bytes, or a text with a suffix K, M, G or T
//           (of 1024), "2G".
// A type that is not in the table is not restricted.
#pragma once

#include "lib/imp/kv.h"

#include <nlohmann/json.hpp>
#include <string>

namespace fluxdat::imp::reader {

// Adds what the members `options` and `R_local` of an exec input (an object) come to.
// Errors name the member. HWLOC_XMLFILE and HWLOC_SYNTHETIC are honoured, as in every
// program that uses hwloc: a wrong topology can only choose other ids, which the
// privileged half checks. `root` is put before /sys and /proc in the search for GPUs
// (tests).
Result<> put_contained(const nlohmann::json& input, Kv& out,
                       const std::string& root = {});

} // namespace fluxdat::imp::reader
