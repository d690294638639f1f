// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <cstdarg>
#include <cstdio>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace rgpu {
namespace {

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn, spdlog::level::err};

void write(LogLevel level, const char *format, va_list args)
{
    char line[2048];
    vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c; ++c)
        if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f) *c = '?';
    spdlog::default_logger_raw()->log(kLevels[static_cast<int>(level)],
                                      spdlog::string_view_t(line));
}

}  // namespace

void open_log(const char *program, LogLevel least)
{
    auto logger = std::make_shared<spdlog::logger>(
        program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %n %l: %v");
    logger->set_level(kLevels[static_cast<int>(least)]);
    logger->flush_on(spdlog::level::debug);
    spdlog::set_default_logger(logger);
}

#define LOG_AT(level) \
    va_list args; \
    va_start(args, format); \
    write(LogLevel::level, format, args); \
    va_end(args)

void log_debug(const char *format, ...) { LOG_AT(debug); }

void log_info(const char *format, ...) { LOG_AT(info); }

void log_warning(const char *format, ...) { LOG_AT(warning); }

void log_error(const char *format, ...) { LOG_AT(error); }

#undef LOG_AT

}  // namespace rgpu
