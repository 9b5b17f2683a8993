// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cli/window_options.h"

namespace fluxdat::cli {

std::vector<CLI::Option*> WindowArguments::add_to(CLI::App& command)
{
    return {command
                .add_option("--warn", warn,
                            "How long before the end guests are told (default 15m,5m; "
                            "or none)")
                ->type_name("FSD,..."),
            command
                .add_option("--close", close,
                            "How long before the end no job starts any more (default: "
                            "with --grace)")
                ->type_name("FSD"),
            command
                .add_option("--grace", grace,
                            "How long jobs have from SIGTERM to the end (default 30s)")
                ->type_name("FSD")};
}

Result<dat::WindowWish> WindowArguments::wish() const
{
    dat::WindowWish wish;
    if (warn) {
        auto parsed = dat::parse_warnings(*warn);
        if (!parsed)
            return fail(Exit::usage, "--warn: {}", parsed.error().message);
        wish.warn = std::move(*parsed);
    }
    for (auto& [name, text, value] : {std::tuple("--close", &close, &wish.close),
                                      std::tuple("--grace", &grace, &wish.grace)}) {
        if (!*text)
            continue;
        auto parsed = dat::parse_before_end(**text);
        if (!parsed)
            return fail(Exit::usage, "{}: {}", name, parsed.error().message);
        *value = *parsed;
    }
    return wish;
}

} // namespace fluxdat::cli
