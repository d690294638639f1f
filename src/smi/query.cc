// SPDX-License-Identifier: Apache-2.0
// --query-gpu and --query-compute-apps, as CSV.
#include <algorithm>

#include "smi/facts.h"
#include "smi/views.h"

namespace rgpu::smi {
namespace {

// One column: what stands in the header, and its value for a GPU and, of a list of processes, one.
struct Column {
    std::string name;
    std::string_view unit;
    const Fact *fact = nullptr;              // of a GPU
    Value (*of)(const Process &) = nullptr;  // of a process
};

Value pid(const Process &p) { return std::to_string(p.pid); }
Value process_name(const Process &p) { return p.name; }
Value used_memory(const Process &p) { return p.memory; }

constexpr struct {
    const char *name, *alias, *unit;
    Value (*of)(const Process &);
} kProcessFields[] = {
    {"pid", "", "", pid},
    {"process_name", "name", "", process_name},
    {"used_gpu_memory", "used_memory", "MiB", used_memory},
};

// Those of a GPU that a list of processes can have.
constexpr const char *kGpuFields[] = {"timestamp", "gpu_name", "gpu_bus_id", "gpu_serial",
                                      "gpu_uuid"};

Result<Column> column(const std::string &field, bool of_processes)
{
    if (of_processes)
        for (const auto &known : kProcessFields)
            if (field == known.name || field == known.alias)
                return Column{field, known.unit, nullptr, known.of};
    const bool allowed = !of_processes || std::find(std::begin(kGpuFields), std::end(kGpuFields),
                                                    field) != std::end(kGpuFields);
    const Fact *fact = allowed ? find_fact(field) : nullptr;
    if (!fact)
        return error(ErrorKind::invalid, "Field \"%s\" is not a valid field to query.\n",
                     field.c_str());
    return Column{field, fact->unit, fact, nullptr};
}

std::string header(const std::vector<Column> &columns)
{
    std::string row;
    for (const Column &c : columns)
        row += (row.empty() ? "" : ", ") + c.name +
               (c.unit.empty() ? "" : " [" + std::string(c.unit) + "]");
    return row + "\n";
}

std::string row(const std::vector<Column> &columns, nvmlDevice_t device, const Process *process,
                bool units)
{
    std::string all;
    for (const Column &c : columns) {
        const Value value = c.fact ? c.fact->of(device) : c.of(*process);
        all += (&c == columns.data() ? "" : ", ") + value.value_or("[N/A]");
        if (value && units && !c.unit.empty()) all += " " + std::string(c.unit);
    }
    return all + "\n";
}

}  // namespace

Result<std::string> query(const std::vector<nvmlDevice_t> &devices, const Options &options)
{
    const bool of_processes = options.verb == Options::query_compute_apps;
    std::vector<Column> columns;
    for (const std::string &field : options.fields) {
        auto c = column(field, of_processes);
        if (!c) return std::move(c).error();
        columns.push_back(std::move(*c));
    }
    std::string all = options.header ? header(columns) : "";
    for (nvmlDevice_t d : devices) {
        if (!of_processes) all += row(columns, d, nullptr, options.units);
        if (of_processes)
            for (const Process &p : processes(d)) all += row(columns, d, &p, options.units);
    }
    return all;
}

std::string help_query_gpu()
{
    std::string all = "List of valid properties to query for the switch \"--query-gpu=\":\n\n";
    for (const Fact &fact : facts())
        all += "\"" + std::string(fact.name) + "\"" +
               (fact.alias.empty() ? "" : " or \"" + std::string(fact.alias) + "\"") + "\n";
    return all;
}

std::string help_query_compute_apps()
{
    std::string all =
        "List of valid properties to query for the switch \"--query-compute-apps=\":\n\n";
    for (const char *name : kGpuFields) all += "\"" + std::string(name) + "\"\n";
    for (const auto &known : kProcessFields)
        all += "\"" + std::string(known.name) + "\"" +
               (known.alias[0] ? " or \"" + std::string(known.alias) + "\"" : "") + "\n";
    return all;
}

}  // namespace rgpu::smi
