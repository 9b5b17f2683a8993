// SPDX-License-Identifier: LGPL-3.0-or-later
#include "lib/flux/constraint.h"

#include "lib/flux/hostlist.h"
#include "lib/flux/idset.h"
#include "lib/flux/text.h"

#include <algorithm>
#include <array>

namespace fluxdat::flux {

namespace {

using Json = nlohmann::json;

struct Alias {
    std::string_view name;
    std::string_view operator_name; // of RFC 31
};

constexpr std::array aliases{
    Alias{"properties", "properties"}, Alias{"hostlist", "hostlist"},
    Alias{"host", "hostlist"},         Alias{"hosts", "hostlist"},
    Alias{"ranks", "ranks"},           Alias{"rank", "ranks"},
};
constexpr std::string_view default_operator = "properties";
constexpr std::string_view not_in_properties = "!&'\"^`|()"; // RFC 20
constexpr std::string_view white = " \t\n\v\f\r";
constexpr std::string_view word_end = " \t\n\v\f\r&|()'\"";

struct Token {
    enum class Kind { end, term, and_, or_, not_, minus, open, close };
    Kind kind = Kind::end;
    std::string_view text; // as it stands in the query, with its quotes
    std::string term;      // Kind::term: without them
};

// A problem, and where: what `at` views is in the query.
struct Problem {
    std::string_view at;
    std::string why;
};

template <class T>
using Parsed = std::expected<T, Problem>;

std::unexpected<Problem> problem(std::string_view at, std::string why)
{
    return std::unexpected(Problem{at, std::move(why)});
}

// Cuts a query into tokens.
class Lexer
{
public:
    explicit Lexer(std::string_view query) : rest_(query) {}

    Parsed<Token> next()
    {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(white), rest_.size()));
        if (rest_.empty())
            return Token{Token::Kind::end, rest_, {}};
        switch (rest_.front()) {
        case '(':
            return take(Token::Kind::open, 1);
        case ')':
            return take(Token::Kind::close, 1);
        case '-':
            return take(Token::Kind::minus, 1);
        case '&':
            return take(Token::Kind::and_, rest_.starts_with("&&") ? 2 : 1);
        case '|':
            return take(Token::Kind::or_, rest_.starts_with("||") ? 2 : 1);
        default:
            return word();
        }
    }

private:
    Token take(Token::Kind kind, std::size_t length)
    {
        Token token{kind, rest_.substr(0, length), {}};
        rest_.remove_prefix(length);
        return token;
    }

    // A keyword or a term; the term whole in quotes, or its operand after the colon.
    Parsed<Token> word()
    {
        auto plain = rest_.substr(0, rest_.find_first_of(word_end));
        bool quote_follows =
            plain.size() < rest_.size()
            && (rest_[plain.size()] == '\'' || rest_[plain.size()] == '"');
        if (plain == "and" || plain == "or" || plain == "not")
            return take(plain == "and"  ? Token::Kind::and_
                        : plain == "or" ? Token::Kind::or_
                                        : Token::Kind::not_,
                        plain.size());
        if (!quote_follows) {
            auto token = take(Token::Kind::term, plain.size());
            token.term = token.text;
            return token;
        }
        auto opening = rest_.substr(plain.size());
        if (!plain.empty() && !plain.ends_with(':'))
            return problem(opening, "a quote in the middle of a word (quote the whole "
                                    "term, or what follows its colon)");
        auto closing = opening.find(opening.front(), 1);
        if (closing == opening.npos)
            return problem(opening, "the quote is never closed");
        auto token = take(Token::Kind::term, plain.size() + closing + 1);
        token.term = std::string(plain).append(opening.substr(1, closing - 1));
        if (rest_.find_first_of(word_end) != 0 && !rest_.empty())
            return problem(rest_, "text follows the closing quote without a space");
        return token;
    }

    std::string_view rest_;
};

// Recursive descent, one function a level of binding.
class Parser
{
public:
    explicit Parser(std::string_view query) : lexer_(query) {}

    Parsed<Json> parse()
    {
        if (auto done = advance(); !done)
            return std::unexpected(std::move(done.error()));
        auto constraint = parse_or();
        if (constraint && token_.kind == Token::Kind::close)
            return problem(token_.text, "a closing parenthesis without an opening one");
        return constraint;
    }

private:
    using Kind = Token::Kind;

    Parsed<void> advance()
    {
        before_ = token_.text;
        auto token = lexer_.next();
        if (!token)
            return std::unexpected(std::move(token.error()));
        token_ = std::move(*token);
        return {};
    }

    Parsed<Json> parse_or()
    {
        std::vector<Json> alternatives;
        for (;;) {
            auto alternative = parse_and();
            if (!alternative)
                return alternative;
            alternatives.push_back(std::move(*alternative));
            if (token_.kind != Kind::or_)
                break;
            if (auto done = advance(); !done)
                return std::unexpected(std::move(done.error()));
        }
        if (alternatives.size() == 1)
            return std::move(alternatives.front());
        return Json{{"or", std::move(alternatives)}};
    }

    Parsed<Json> parse_and()
    {
        std::vector<Json> all;
        do {
            if (token_.kind == Kind::and_ && !all.empty())
                if (auto done = advance(); !done)
                    return std::unexpected(std::move(done.error()));
            auto one = parse_factor();
            if (!one)
                return one;
            if (!all.empty() && all.back().contains("properties")
                && one->contains("properties")) {
                auto& names = all.back()["properties"];
                for (auto& name : (*one)["properties"])
                    names.push_back(std::move(name));
            } else {
                all.push_back(std::move(*one));
            }
        } while (token_.kind == Kind::and_ || starts_factor());
        if (all.size() == 1)
            return std::move(all.front());
        return Json{{"and", std::move(all)}};
    }

    bool starts_factor() const
    {
        return token_.kind == Kind::term || token_.kind == Kind::not_
               || token_.kind == Kind::minus || token_.kind == Kind::open;
    }

    Parsed<Json> parse_factor()
    {
        switch (token_.kind) {
        case Kind::not_:
            return nested([this](auto) { return negated(parse_factor()); });
        case Kind::minus:
            return parse_minus();
        case Kind::open:
            return nested([this](auto opening) { return parse_parenthesis(opening); });
        case Kind::term:
            return parse_term();
        default:
            break;
        }
        return expected_term();
    }

    // Goes over the present token, "not" or "(", and one level down.
    template <class Parse>
    Parsed<Json> nested(Parse parse)
    {
        auto opening = token_.text;
        if (++depth_ > constraint_depth_max)
            return problem(token_.text, fmt::format("nested more than {} deep",
                                                    constraint_depth_max));
        if (auto done = advance(); !done)
            return std::unexpected(std::move(done.error()));
        auto inner = parse(opening);
        --depth_;
        return inner;
    }

    Parsed<Json> parse_parenthesis(std::string_view opening)
    {
        auto inner = parse_or();
        if (!inner)
            return inner;
        if (token_.kind != Kind::close)
            return problem(opening, "the parenthesis is never closed");
        if (auto done = advance(); !done)
            return std::unexpected(std::move(done.error()));
        return inner;
    }

    Parsed<Json> parse_minus()
    {
        if (auto done = advance(); !done)
            return std::unexpected(std::move(done.error()));
        if (token_.kind == Kind::open)
            return problem(token_.text, "\"-\" negates a single term; write \"not (\"");
        if (token_.kind != Kind::term)
            return expected_term();
        return negated(parse_term());
    }

    static Parsed<Json> negated(Parsed<Json> inner)
    {
        if (!inner)
            return inner;
        return Json{{"not", Json::array({std::move(*inner)})}};
    }

    Parsed<Json> parse_term()
    {
        auto term = std::move(token_);
        token_ = Token{Kind::term, term.text, {}};
        auto colon = term.term.find(':');
        auto name = colon == std::string::npos ? std::string(default_operator)
                                               : term.term.substr(0, colon);
        auto operand =
            colon == std::string::npos ? term.term : term.term.substr(colon + 1);
        auto alias = std::ranges::find(aliases, name, &Alias::name);
        if (alias == aliases.end())
            return problem(term.text,
                           fmt::format("unknown operator {} (known are properties, "
                                       "hostlist, host, hosts, ranks and rank)",
                                       in_quotes(name)));
        if (operand.empty())
            return problem(term.text, fmt::format("nothing follows \"{}:\"", name));
        auto values = operand_values(alias->operator_name, operand);
        if (!values)
            return problem(term.text, std::move(values.error().message));
        if (auto done = advance(); !done)
            return std::unexpected(std::move(done.error()));
        return Json{{std::string(alias->operator_name), std::move(*values)}};
    }

    static Result<std::vector<std::string>>
    operand_values(std::string_view operator_name, const std::string& operand)
    {
        if (operator_name == "properties")
            return properties(operand);
        if (operator_name == "hostlist") {
            auto hosts = parse_hostlist(operand);
            if (!hosts)
                return std::unexpected(std::move(hosts.error()));
            if (hosts->empty())
                return fail("the hostlist has no host in it");
        } else {
            auto ranks = parse_idset(operand);
            if (!ranks)
                return std::unexpected(std::move(ranks.error()));
            if (ranks->empty())
                return fail("the idset has no rank in it");
        }
        return std::vector{operand};
    }

    static Result<std::vector<std::string>> properties(std::string_view operand)
    {
        std::vector<std::string> names;
        for (;;) {
            auto name = operand.substr(0, operand.find(','));
            auto bare = name.starts_with('^') ? name.substr(1) : name;
            if (bare.empty())
                return fail("a property without a name");
            auto illegal = bare.find_first_of(not_in_properties);
            if (illegal != bare.npos)
                return fail("no property has {} in its name",
                            in_quotes(bare.substr(illegal, 1)));
            names.emplace_back(name);
            if (name.size() == operand.size())
                return names;
            operand.remove_prefix(name.size() + 1);
        }
    }

    std::unexpected<Problem> expected_term() const
    {
        if (before_.empty())
            return problem(token_.text, "expected a term");
        return problem(token_.text,
                       fmt::format("expected a term after \"{}\"", before_));
    }

    Lexer lexer_;
    Token token_;
    std::string_view before_; // the token before it
    std::size_t depth_ = 0;
};

std::size_t column(std::string_view query, std::string_view at)
{
    auto before = query.substr(0, static_cast<std::size_t>(at.data() - query.data()));
    return 1 + static_cast<std::size_t>(std::ranges::count_if(before, [](char c) {
               return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
           }));
}

} // namespace

Result<nlohmann::json> parse_constraint(std::string_view query)
{
    if (query.size() > constraint_bytes_max)
        return fail(Exit::usage, "constraint {}: longer than {} bytes",
                    in_quotes(query), constraint_bytes_max);
    if (!valid_utf8(query))
        return fail(Exit::usage, "constraint {}: not UTF-8", in_quotes(query));
    if (trimmed(query).empty())
        return fail(Exit::usage, "constraint {}: it is empty", in_quotes(query));
    auto constraint = Parser(query).parse();
    if (!constraint)
        return fail(Exit::usage, "constraint {}: column {}: {}", in_quotes(query),
                    column(query, constraint.error().at), constraint.error().why);
    return std::move(*constraint);
}

} // namespace fluxdat::flux
