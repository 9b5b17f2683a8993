// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/imp/sign.h"

#include "lib/imp/base64.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <munge.h>
#include <sha2.h>
#include <unistd.h>

namespace fluxdat::imp {

namespace {

constexpr std::int64_t sign_version = 1;
constexpr std::string_view none_signature = "none";
// RFC 39: what a MUNGE credential holds is a byte that tells the hash, and the digest.
constexpr char hash_type_sha256 = 1;

std::string munge_payload(std::string_view signed_part)
{
    std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest;
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, reinterpret_cast<const std::uint8_t*>(signed_part.data()),
                 signed_part.size());
    SHA256Final(digest.data(), &context);
    return std::string(1, hash_type_sha256)
           + std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

// A MUNGE context that talks to the munged behind `socket`.
class MungeContext
{
public:
    explicit MungeContext(const std::string& socket)
        : context_(munge_ctx_create()), socket_(socket)
    {
    }
    ~MungeContext() { munge_ctx_destroy(context_); }
    MungeContext(const MungeContext&) = delete;
    MungeContext& operator=(const MungeContext&) = delete;

    Result<> prepare()
    {
        if (!context_)
            return fail("sign: munge: out of memory", ENOMEM);
        if (socket_.empty())
            return {};
        auto status = munge_ctx_set(context_, MUNGE_OPT_SOCKET, socket_.c_str());
        if (status != EMUNGE_SUCCESS)
            return error("cannot use its socket", status);
        return {};
    }

    munge_ctx_t get() const { return context_; }

    std::unexpected<Error> error(std::string_view what, munge_err_t status) const
    {
        // The context says more ("Failed to access ...: No such file or directory"),
        // but only of a failure that it saw itself.
        const char* text = context_ ? munge_ctx_strerror(context_) : nullptr;
        return fail("sign: munge: " + std::string(what) + " ("
                        + (socket_.empty() ? "" : "socket " + socket_ + ", ")
                        + (text ? text : munge_strerror(status)) + ")",
                    status == EMUNGE_SOCKET ? ENOENT : 0);
    }

private:
    munge_ctx_t context_;
    std::string socket_;
};

Result<std::string> munge_sign(std::string_view signed_part,
                               const std::string& munge_socket)
{
    MungeContext munge(munge_socket);
    if (auto ready = munge.prepare(); !ready)
        return std::unexpected(std::move(ready.error()));
    auto content = munge_payload(signed_part);
    char* credential = nullptr;
    auto status = munge_encode(&credential, munge.get(), content.data(),
                               static_cast<int>(content.size()));
    if (status != EMUNGE_SUCCESS)
        return munge.error("cannot sign; is munged running?", status);
    std::string signature = credential;
    std::free(credential);
    return signature;
}

Result<> check_age(std::time_t signed_at, std::time_t now, std::time_t max_ttl)
{
    if (now - signed_at > max_ttl)
        return fail("sign: signed " + std::to_string(now - signed_at)
                        + " seconds ago, and good for " + std::to_string(max_ttl)
                        + " (max-ttl)",
                    EPERM);
    return {};
}

Result<> munge_verify(std::string_view signed_part, const Signed& request,
                      const SignPolicy& policy)
{
    MungeContext munge(policy.munge_socket);
    if (auto ready = munge.prepare(); !ready)
        return ready;
    void* content = nullptr;
    int content_size = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    auto status = munge_decode(request.signature.c_str(), munge.get(), &content,
                               &content_size, &uid, &gid);
    std::unique_ptr<void, decltype(&std::free)> owned(content, &std::free);
    if (status == EMUNGE_SOCKET)
        return munge.error("cannot verify; is munged running?", status);
    if (status != EMUNGE_SUCCESS && status != EMUNGE_CRED_EXPIRED
        && status != EMUNGE_CRED_REPLAYED) {
        auto refused = munge.error("the signature is not valid", status);
        return fail(std::move(refused.error().message), EPERM);
    }
    if (content_size < 0
        || std::string_view(static_cast<const char*>(content),
                            static_cast<std::size_t>(content_size))
               != munge_payload(signed_part))
        return fail("sign: the signature is not one of this header and payload", EPERM);
    if (uid != request.userid)
        return fail("sign: the header claims userid " + std::to_string(request.userid)
                        + ", but " + std::to_string(uid) + " signed",
                    EPERM);
    std::time_t signed_at = 0;
    status = munge_ctx_get(munge.get(), MUNGE_OPT_ENCODE_TIME, &signed_at);
    if (status != EMUNGE_SUCCESS)
        return munge.error("cannot tell when it was signed", status);
    return check_age(signed_at, std::time(nullptr), policy.max_ttl);
}

Result<> none_verify(const Signed& request)
{
    if (request.signature != none_signature)
        return fail("sign: the signature of mechanism none is not \"none\": "
                        + in_quotes(request.signature),
                    EPERM);
    if (request.userid != getuid())
        return fail("sign: mechanism none is only good for the user who verifies ("
                        + std::to_string(getuid()) + "), and the header claims userid "
                        + std::to_string(request.userid),
                    EPERM);
    return {};
}

Result<std::string> decode_part(std::string_view text, const char* name)
{
    auto bytes = base64_decode(text);
    if (!bytes)
        return fail("sign: the " + std::string(name) + ": " + bytes.error().message,
                    EINVAL);
    return bytes;
}

// The keys that RFC 39 requires.
Result<> read_header(Signed& request)
{
    auto version = request.header.get_integer("version");
    if (!version)
        return fail("sign: the header: " + version.error().message, EINVAL);
    if (*version != sign_version)
        return fail("sign: version " + std::to_string(*version)
                        + " is not known here (1 is)",
                    EINVAL);
    auto name = request.header.get_string("mechanism");
    if (!name)
        return fail("sign: the header: " + name.error().message, EINVAL);
    auto mechanism = parse_mechanism(*name);
    if (!mechanism)
        return std::unexpected(std::move(mechanism.error()));
    request.mechanism = *mechanism;
    auto userid = request.header.get_integer("userid");
    if (!userid)
        return fail("sign: the header: " + userid.error().message, EINVAL);
    // (uid_t)-1 means "nobody in particular" to the system calls that take a uid.
    if (*userid < 0 || *userid >= static_cast<std::int64_t>(static_cast<uid_t>(-1)))
        return fail("sign: " + std::to_string(*userid) + " is no userid", EINVAL);
    request.userid = static_cast<uid_t>(*userid);
    return {};
}

} // namespace

Result<Mechanism> parse_mechanism(std::string_view name)
{
    for (auto mechanism : {Mechanism::none, Mechanism::munge})
        if (name == mechanism_name(mechanism))
            return mechanism;
    return fail("sign: unknown mechanism " + in_quotes(name)
                    + " (known are munge, none)",
                EINVAL);
}

const char* mechanism_name(Mechanism mechanism)
{
    return mechanism == Mechanism::munge ? "munge" : "none";
}

Result<std::string> sign_wrap(std::string_view payload, Mechanism mechanism,
                              uid_t userid, const std::string& munge_socket)
{
    Kv header;
    for (auto done : {header.put_integer("version", sign_version),
                      header.put_string("mechanism", mechanism_name(mechanism)),
                      header.put_integer("userid", userid)})
        if (!done)
            return std::unexpected(std::move(done.error()));
    // Base64 makes four bytes of three.
    if (payload.size() > sign_bytes_max / 4 * 3)
        return fail("sign: a payload of " + std::to_string(payload.size())
                        + " bytes makes more than the " + std::to_string(sign_bytes_max)
                        + " that can be sent",
                    E2BIG);
    auto j = base64_encode(header.encode()) + "." + base64_encode(payload);
    auto signature = mechanism == Mechanism::munge
                         ? munge_sign(j, munge_socket)
                         : Result<std::string>(none_signature);
    if (!signature)
        return signature;
    j += "." + *signature;
    if (j.size() > sign_bytes_max)
        return fail("sign: it takes more than " + std::to_string(sign_bytes_max)
                        + " bytes",
                    E2BIG);
    return j;
}

Result<Signed> sign_read(std::string_view j)
{
    if (j.size() > sign_bytes_max)
        return fail("sign: " + std::to_string(j.size()) + " bytes, more than "
                        + std::to_string(sign_bytes_max),
                    E2BIG);
    auto first = j.find('.');
    auto second = first == j.npos ? j.npos : j.find('.', first + 1);
    if (second == j.npos || j.find('.', second + 1) != j.npos)
        return fail("sign: not of the form HEADER.PAYLOAD.SIGNATURE", EINVAL);

    Signed request;
    request.signed_bytes = second;
    auto header = decode_part(j.substr(0, first), "header");
    if (!header)
        return std::unexpected(std::move(header.error()));
    auto kv = Kv::decode(*header);
    if (!kv)
        return fail("sign: the header: " + kv.error().message, EINVAL);
    request.header = std::move(*kv);
    if (auto done = read_header(request); !done)
        return std::unexpected(std::move(done.error()));
    auto payload = decode_part(j.substr(first + 1, second - first - 1), "payload");
    if (!payload)
        return std::unexpected(std::move(payload.error()));
    request.payload = std::move(*payload);
    auto signature = j.substr(second + 1);
    if (signature.empty() || signature.size() > signature_bytes_max
        || signature.find('\0') != signature.npos)
        return fail("sign: the signature is empty, has a NUL in it, or has more than "
                        + std::to_string(signature_bytes_max) + " bytes",
                    EINVAL);
    request.signature = signature;
    return request;
}

Result<Signed> sign_unwrap(std::string_view j, const SignPolicy& policy)
{
    auto request = sign_read(j);
    if (!request)
        return request;
    if (std::ranges::find(policy.allowed, request->mechanism) == policy.allowed.end())
        return fail("sign: mechanism " + std::string(mechanism_name(request->mechanism))
                        + " is not among those that the configuration allows "
                          "(allowed-types)",
                    EPERM);
    auto verdict =
        request->mechanism == Mechanism::munge
            ? munge_verify(j.substr(0, request->signed_bytes), *request, policy)
            : none_verify(*request);
    if (!verdict)
        return std::unexpected(std::move(verdict.error()));
    return request;
}

} // namespace fluxdat::imp
