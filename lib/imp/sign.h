// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Signed jobs: RFC 39. A job request "J" is
//
//     HEADER.PAYLOAD.SIGNATURE
//
// the header a Kv (RFC 38) in base64 with the keys "version" (1), "mechanism" and
// "userid", the payload a jobspec in base64, the signature what the mechanism makes of
// HEADER.PAYLOAD:
//
//     munge   a MUNGE credential with the SHA-256 digest in it: the local munged says
//             who made it, and when
//     none    the word "none": worth nothing but towards oneself
//
// SHA-256 is libmd's. Of what Debian has, OpenSSL (4 MB mapped, a configuration file
// read, engines) and libgcrypt (a self-test on start) are too much for a small setuid
// program that hashes once, libsodium and nettle bring ten times the code; libmd is the
// BSDs' implementation, 50 kB without a dependency, and on every Debian, since dpkg
// uses it.
#pragma once

#include "lib/imp/kv.h"
#include "lib/imp/result.h"

#include <ctime>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace fluxdat::imp {

// Most bytes of a J. A jobspec with its environment and files is some 100 kB.
constexpr std::size_t sign_bytes_max = 16u << 20;
// Most bytes of a signature: a MUNGE credential of ours has about 200.
constexpr std::size_t signature_bytes_max = 4096;
// How long a signature is good where the configuration says nothing: two weeks, as in
// flux-security. Jobs wait in queues.
constexpr std::time_t sign_max_ttl_default = 1209600; // seconds

enum class Mechanism { none, munge };

Result<Mechanism> parse_mechanism(std::string_view name); // its name in the header
const char* mechanism_name(Mechanism mechanism);

// Makes a J. `userid` is the claim in the header; MUNGE vouches for the effective uid
// of this process, so with another the J will verify nowhere. `munge_socket` is the
// path of munged's socket, empty for MUNGE's own default. Fails where there is no
// munged, with its socket and what MUNGE says, and on a payload that makes more than
// sign_bytes_max.
Result<std::string> sign_wrap(std::string_view payload, Mechanism mechanism,
                              uid_t userid, const std::string& munge_socket = {});

// A J taken apart. `userid` is only what its header claims.
struct Signed {
    Kv header; // also keys that are unknown here
    Mechanism mechanism = Mechanism::none;
    uid_t userid = 0;
    std::string payload;
    std::string signature;
    std::size_t signed_bytes =
        0; // HEADER.PAYLOAD is so long: what the signature is over
};

// Takes a J apart and checks its form, NOT who signed it: for programs that only want
// to look at it. Fails unless there are exactly two dots, header and payload are strict
// base64, the header is a Kv with version 1, a known mechanism, and a userid that is
// one.
Result<Signed> sign_read(std::string_view j);

// What a verifier insists on. From its configuration, never from what is verified.
struct SignPolicy {
    std::vector<Mechanism> allowed{Mechanism::munge};
    std::time_t max_ttl = sign_max_ttl_default; // seconds; mechanism none has no age
    std::string munge_socket;                   // empty: MUNGE's default
};

// sign_read(), and then the proof that `userid` signed exactly this header and payload,
// as RFC 39 has it: with munge, the credential decodes, holds the digest of
// HEADER.PAYLOAD, is userid's, and not older than max_ttl (MUNGE's own verdicts
// "expired" and "replayed" are success); with none, the signature is "none" and userid
// is this process's real uid. EPERM where it is understood and refused.
Result<Signed> sign_unwrap(std::string_view j, const SignPolicy& policy);

} // namespace fluxdat::imp
