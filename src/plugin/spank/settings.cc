// SPDX-License-Identifier: Apache-2.0
// Reads the arguments of plugstack.conf, and builds paths from them.
#include "plugin/spank/settings.h"

namespace rgpu::plugin {

Result<Settings> parse_settings(int count, char **arguments)
{
    Settings out;
    struct {
        std::string_view name;
        std::string *value;
    } known[] = {{"rundir", &out.rundir},   {"interposer", &out.interposer},
                 {"libpath", &out.libpath}, {"rgpu", &out.rgpu},
                 {"conf", &out.conf},       {"devices", &out.devices}};
    for (int i = 0; i < count; ++i) {
        std::string_view argument = arguments[i];
        size_t equals = argument.find('=');
        bool found = false;
        for (auto &setting : known) {
            if (equals != argument.npos && argument.substr(0, equals) == setting.name) {
                *setting.value = argument.substr(equals + 1);
                found = true;
            }
        }
        if (!found)
            return error(ErrorKind::invalid,
                         "plugstack.conf: '%s' is no argument of spank_rgpu.so; it knows rundir=, "
                         "interposer=, libpath=, rgpu=, conf= and devices=",
                         arguments[i]);
    }
    if (out.devices != "yes" && out.devices != "no")
        return error(ErrorKind::invalid, "plugstack.conf: devices=%s: give yes or no",
                     out.devices.c_str());
    return out;
}

std::string library_path(const Settings &settings, std::string_view present)
{
    std::string ours = settings.interposer;
    if (!settings.libpath.empty()) ours += (ours.empty() ? "" : ":") + settings.libpath;
    if (present.substr(0, ours.size()) == ours &&
        (present.size() == ours.size() || present[ours.size()] == ':'))
        return std::string(present);
    return present.empty() ? ours : ours + ":" + std::string(present);
}

}  // namespace rgpu::plugin
