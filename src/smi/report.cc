// SPDX-License-Identifier: Apache-2.0
#include "smi/report.h"

#include <algorithm>
#include <cctype>

#include "smi/facts.h"

namespace rgpu::smi {
namespace {

struct Line {
    const char *label, *fact;
};
// A section: its label, what -d calls it, and its lines. A line without a fact opens a part, whose
// lines begin with a blank.
struct Group {
    const char *label, *display;
    std::vector<Line> lines;
};

const std::vector<Group> kGroups = {
    {"",
     "",
     {{"Product Name", "name"},
      {"Product Architecture", "architecture"},
      {"Display Mode", "display_mode"},
      {"Display Active", "display_active"},
      {"Persistence Mode", "persistence_mode"},
      {"MIG Mode", nullptr},
      {" Current", "mig.mode.current"},
      {" Pending", "mig.mode.pending"},
      {"Accounting Mode", "accounting.mode"},
      {"Accounting Mode Buffer Size", "accounting.buffer_size"},
      {"Serial Number", "serial"},
      {"GPU UUID", "uuid"},
      {"Minor Number", "minor_number"},
      {"VBIOS Version", "vbios_version"},
      {"GPU Part Number", "board_part_number"}}},
    {"PCI",
     "",
     {{"Bus", "pci.bus"},
      {"Device", "pci.device"},
      {"Domain", "pci.domain"},
      {"Device Id", "pci.device_id"},
      {"Bus Id", "pci.bus_id"},
      {"Sub System Id", "pci.sub_device_id"},
      {"GPU Link Info", nullptr},
      {" PCIe Generation Max", "pcie.link.gen.max"},
      {" PCIe Generation Current", "pcie.link.gen.current"},
      {" Link Width Max", "pcie.link.width.max"},
      {" Link Width Current", "pcie.link.width.current"}}},
    {"", "", {{"Fan Speed", "fan.speed"}}},
    {"",
     "PERFORMANCE",
     {{"Performance State", "pstate"},
      {"Clocks Event Reasons", nullptr},
      {" Idle", "clocks_event_reasons.gpu_idle"},
      {" Applications Clocks Setting", "clocks_event_reasons.applications_clocks_setting"},
      {" SW Power Cap", "clocks_event_reasons.sw_power_cap"},
      {" HW Slowdown", "clocks_event_reasons.hw_slowdown"},
      {" HW Thermal Slowdown", "clocks_event_reasons.hw_thermal_slowdown"},
      {" HW Power Brake Slowdown", "clocks_event_reasons.hw_power_brake_slowdown"},
      {" Sync Boost", "clocks_event_reasons.sync_boost"},
      {" SW Thermal Slowdown", "clocks_event_reasons.sw_thermal_slowdown"}}},
    {"FB Memory Usage",
     "MEMORY",
     {{"Total", "memory.total"},
      {"Reserved", "memory.reserved"},
      {"Used", "memory.used"},
      {"Free", "memory.free"}}},
    {"BAR1 Memory Usage",
     "MEMORY",
     {{"Total", "bar1.total"}, {"Used", "bar1.used"}, {"Free", "bar1.free"}}},
    {"", "COMPUTE", {{"Compute Mode", "compute_mode"}}},
    {"Utilization",
     "UTILIZATION",
     {{"Gpu", "utilization.gpu"},
      {"Memory", "utilization.memory"},
      {"Encoder", "utilization.encoder"},
      {"Decoder", "utilization.decoder"},
      {"JPEG", "utilization.jpeg"},
      {"OFA", "utilization.ofa"}}},
    {"ECC Mode", "ECC", {{"Current", "ecc.mode.current"}, {"Pending", "ecc.mode.pending"}}},
    {"ECC Errors",
     "ECC",
     {{"Volatile", nullptr},
      {" Correctable", "ecc.errors.corrected.volatile.total"},
      {" Uncorrectable", "ecc.errors.uncorrected.volatile.total"},
      {"Aggregate", nullptr},
      {" Correctable", "ecc.errors.corrected.aggregate.total"},
      {" Uncorrectable", "ecc.errors.uncorrected.aggregate.total"}}},
    {"Retired Pages", "PAGE_RETIREMENT", {{"Pending Page Blacklist", "retired_pages.pending"}}},
    {"Temperature", "TEMPERATURE", {{"GPU Current Temp", "temperature.gpu"}}},
    {"GPU Power Readings",
     "POWER",
     {{"Power Draw", "power.draw"},
      {"Current Power Limit", "enforced.power.limit"},
      {"Requested Power Limit", "power.limit"},
      {"Default Power Limit", "power.default_limit"},
      {"Min Power Limit", "power.min_limit"},
      {"Max Power Limit", "power.max_limit"}}},
    {"Clocks",
     "CLOCK",
     {{"Graphics", "clocks.current.graphics"},
      {"SM", "clocks.current.sm"},
      {"Memory", "clocks.current.memory"},
      {"Video", "clocks.current.video"}}},
    {"Applications Clocks",
     "CLOCK",
     {{"Graphics", "clocks.applications.graphics"}, {"Memory", "clocks.applications.memory"}}},
    {"Max Clocks",
     "CLOCK",
     {{"Graphics", "clocks.max.graphics"},
      {"SM", "clocks.max.sm"},
      {"Memory", "clocks.max.memory"}}},
};

// What -d takes on its own.
constexpr const char *kPids = "PIDS";

// Temperatures are the one fact whose unit -q has and --query-gpu has not.
std::string value_of(const Line &line, nvmlDevice_t device)
{
    std::string value = told(line.fact, device);
    if (std::string_view(line.fact) == "temperature.gpu" && value != "N/A") value += " C";
    return value;
}

void add_lines(std::vector<Section> &to, const Group &group, nvmlDevice_t device)
{
    for (const Line &line : group.lines)
        if (!line.fact)
            to.push_back({line.label, "", {}});
        else if (line.label[0] == ' ')
            to.back().parts.push_back({line.label + 1, value_of(line, device), {}});
        else
            to.push_back({line.label, value_of(line, device), {}});
}

Section process_section(nvmlDevice_t device)
{
    Section section{"Processes", "", {}};
    for (const Process &p : processes(device))
        section.parts.push_back({"Process ID",
                                 std::to_string(p.pid),
                                 {{"Type", "C", {}},
                                  {"Name", p.name, {}},
                                  {"Used GPU Memory", p.memory ? *p.memory + " MiB" : "N/A", {}}}});
    if (section.parts.empty()) section.value = "None";
    return section;
}

void print(std::string &to, const Section &section, size_t depth)
{
    std::string line = std::string(4 * depth, ' ') + section.name;
    if (section.parts.empty() || !section.value.empty()) {
        line.resize(std::max<size_t>(line.size(), 42), ' ');
        line += ": " + section.value;
    }
    to += line + "\n";
    for (const Section &part : section.parts) print(to, part, depth + 1);
}

std::string escaped(const std::string &text)
{
    std::string out;
    for (char c : text) switch (c) {
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '&': out += "&amp;"; break;
        case '"': out += "&quot;"; break;
        default: out += c;
        }
    return out;
}

std::string element(const std::string &label)
{
    if (label == "GPU UUID") return "uuid";
    if (label == "Gpu" || label == "Memory" || label == "Encoder" || label == "Decoder")
        return element(label + " util");
    if (label == "Process ID") return "process_info";
    std::string name;
    for (char c : label)
        name += c == ' ' ? '_' : static_cast<char>(tolower(static_cast<unsigned char>(c)));
    return name;
}

void print_xml(std::string &to, const Section &section, size_t depth)
{
    const std::string indent(depth, '\t');
    std::string name = element(section.name);
    if (section.parts.empty()) {
        to += indent + "<" + name + ">" + escaped(section.value) + "</" + name + ">\n";
        return;
    }
    to += indent + "<" + name + ">\n";
    if (!section.value.empty()) to += indent + "\t<pid>" + section.value + "</pid>\n";
    for (const Section &part : section.parts) print_xml(to, part, depth + 1);
    to += indent + "</" + name + ">\n";
}

std::string driver(nvmlDevice_t device) { return told("driver_version", device); }

}  // namespace

bool is_display(const std::string &name)
{
    return name == kPids || std::any_of(kGroups.begin(), kGroups.end(), [&](const Group &g) {
               return g.display[0] && name == g.display;
           });
}

std::vector<Section> report_of(nvmlDevice_t device, const std::vector<std::string> &display)
{
    const auto wanted = [&](std::string_view name) {
        return display.empty() || std::find(display.begin(), display.end(), name) != display.end();
    };
    std::vector<Section> all;
    for (const Group &group : kGroups) {
        if (!wanted(group.display)) continue;
        if (!group.label[0]) {
            add_lines(all, group, device);
            continue;
        }
        add_lines(all.emplace_back(Section{group.label, "", {}}).parts, group, device);
    }
    if (wanted(kPids)) all.push_back(process_section(device));
    return all;
}

std::string report(const std::vector<nvmlDevice_t> &devices,
                   const std::vector<std::string> &display, bool xml)
{
    const std::vector<Section> head = {{"Timestamp", date(), {}},
                                       {"Driver Version", driver(devices[0]), {}},
                                       {"CUDA Version", cuda_version(), {}},
                                       {"Attached GPUs", std::to_string(devices.size()), {}}};
    std::string text = xml ? "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n"
                           : "\n==============NVSMI LOG==============\n\n";
    for (const Section &s : head) {
        if (xml)
            print_xml(text, s, 1);
        else
            print(text, s, 0);
        if (!xml && s.name == "CUDA Version") text += "\n";
    }
    for (nvmlDevice_t device : devices) {
        const std::string id = told("pci.bus_id", device);
        text += xml ? "\t<gpu id=\"" + id + "\">\n" : "GPU " + id + "\n";
        for (const Section &s : report_of(device, display)) {
            if (xml)
                print_xml(text, s, 2);
            else
                print(text, s, 1);
        }
        text += xml ? "\t</gpu>\n" : "\n";
    }
    return xml ? text + "</nvidia_smi_log>\n" : text;
}

}  // namespace rgpu::smi
