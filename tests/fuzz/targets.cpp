// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tests/fuzz/targets.h"

#include "lib/imp/base64.h"
#include "lib/imp/config.h"
#include "lib/imp/contain.h"
#include "lib/imp/grants.h"
#include "lib/imp/kv.h"
#include "lib/imp/reader/reader.h"
#include "lib/imp/sign.h"
#include "lib/perms/grants.h"

#include <cstdlib>

namespace fluxdat::fuzz {

namespace {

void promise(bool holds)
{
    if (!holds)
        std::abort();
}

// A refusal is one line, with nothing of a terminal's control characters in it.
void promise_line(const std::string& message)
{
    promise(!message.empty());
    for (char c : message)
        promise(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
}

} // namespace

void kv(std::string_view bytes)
{
    auto decoded = imp::Kv::decode(bytes);
    if (!decoded)
        return promise_line(decoded.error().message);
    promise(decoded->encode() == bytes);
    for (const auto& pair : decoded->pairs())
        promise(decoded->contains(pair.key));
    if (auto argv = imp::kv_to_argv(*decoded))
        promise(imp::kv_from_argv(*argv)->encode() == bytes);
    if (auto environment = imp::kv_to_environment(*decoded))
        promise(imp::kv_from_environment(*environment)->encode() == bytes);
}

void sign(std::string_view bytes)
{
    auto read = imp::sign_read(bytes);
    if (!read)
        return promise_line(read.error().message);
    auto head = imp::base64_encode(read->header.encode());
    auto again = head + "." + imp::base64_encode(read->payload);
    promise(again == bytes.substr(0, read->signed_bytes));
    promise(again + "." + read->signature == bytes);
    // Not munge: that would ask a daemon.
    auto verified = imp::sign_unwrap(
        bytes, {.allowed = {imp::Mechanism::none}, .munge_socket = {}});
    promise(!verified || read->signature == "none");
}

void config(std::string_view bytes)
{
    std::vector<imp::Problem> problems;
    auto read = imp::read_config_text(bytes, problems);
    for (const auto& problem : problems)
        promise(!problem.message.empty());
    for (const auto& [name, command] : read.run)
        promise(command.file == "text");
}

void input(std::string_view bytes)
{
    auto read = imp::reader::from_json(bytes, "input");
    if (!read)
        return promise(!read.error().message.empty());
    auto encoded = read->encode();
    auto decoded = imp::Kv::decode(encoded);
    promise(decoded && *decoded == *read);
    promise(decoded->get_string("J").has_value());
    // The texts in options are handed on as they are, so they may be refused there.
    if (auto containment = imp::Containment::from_kv(*decoded); !containment)
        promise_line(containment.error().message);
}

void grants(std::string_view bytes)
{
    auto ours = imp::parse_grants(bytes);
    auto theirs = perms::parse_grants(bytes);
    promise(ours.has_value() == theirs.has_value());
    if (!ours)
        return promise_line(ours.error().message);
    promise(ours->owner == theirs->owner && ours->open == theirs->guests.open);
    promise(ours->users == theirs->guests.users);
    promise(ours->groups == theirs->guests.groups);
}

} // namespace fluxdat::fuzz
