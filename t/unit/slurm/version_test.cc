// SPDX-License-Identifier: Apache-2.0
// Versions of Slurm and of plugins.
#include <criterion/criterion.h>

#include <cstring>
#include <elf.h>
#include <random>
#include <string>

#include "slurm/conf/version.h"

using namespace rgpu::slurm;

Test(version, reads_what_slurm_prints)
{
    cr_expect(parse_slurm_version("slurm-wlm 22.05.8") == 0x160508u);
    cr_expect(parse_slurm_version("slurm 24.11.5") == 0x180b05u);
    cr_expect(parse_slurm_version("23.02.0-0rc1") == 0x170200u);
    for (const char *none : {"", "slurm", "slurm 24", "slurm 24.11", "slurm 24.x.1", "slurm 24.11.",
                             "slurm 300.1.1", "slurm 1.-1.1"})
        cr_expect(!parse_slurm_version(none), "%s", none);
}

Test(version, writes_as_slurm_does)
{
    cr_expect(to_text(0x160508) == "22.05.8");
    cr_expect(to_text(0x180b05) == "24.11.5");
}

Test(version, spank_plugins_may_be_of_another_micro_version)
{
    cr_expect(slurm_loads(0x160508, 0x160508, false));
    cr_expect(!slurm_loads(0x160509, 0x160508, false));
    cr_expect(slurm_loads(0x160509, 0x160508, true));
    cr_expect(!slurm_loads(0x170208, 0x160508, true));
}

Test(version, knows_the_default_of_selecttype)
{
    cr_expect(selects_linear(0x160508));
    cr_expect(selects_linear(0x170208));
    cr_expect_not(selects_linear(0x170b00));
    cr_expect_not(selects_linear(0x180b05));
}

// An object with .dynsym, its strings and .rodata, and nothing else.
static std::string object(uint32_t version)
{
    const char names[] = "\0other\0plugin_version";
    Elf64_Ehdr head = {};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = 4;
    head.e_shoff = sizeof head;
    uint64_t at = sizeof head + 4 * sizeof(Elf64_Shdr);
    Elf64_Shdr sections[4] = {};
    Elf64_Sym symbols[2] = {};
    symbols[0].st_name = 1;
    symbols[1].st_name = 7;
    symbols[1].st_shndx = 3;
    symbols[1].st_value = 0x1004;
    sections[1].sh_type = SHT_DYNSYM;
    sections[1].sh_link = 2;
    sections[1].sh_offset = at;
    sections[1].sh_size = sizeof symbols;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = at + sizeof symbols;
    sections[2].sh_size = sizeof names;
    sections[3].sh_type = SHT_PROGBITS;
    sections[3].sh_addr = 0x1000;
    sections[3].sh_offset = at + sizeof symbols + sizeof names;
    uint32_t data[2] = {0xffffffff, version};
    std::string out(reinterpret_cast<char *>(&head), sizeof head);
    out.append(reinterpret_cast<char *>(sections), sizeof sections);
    out.append(reinterpret_cast<char *>(symbols), sizeof symbols);
    out.append(names, sizeof names);
    return out.append(reinterpret_cast<char *>(data), sizeof data);
}

Test(version, finds_the_version_in_a_plugin)
{
    cr_expect(plugin_version_in(object(0x180b05)) == 0x180b05u);
    std::string renamed = object(0x180b05);
    renamed[renamed.find("plugin_version")] = 'q';
    cr_expect(!plugin_version_in(renamed));
}

Test(version, is_not_led_astray_by_broken_objects)
{
    std::string good = object(0x180b05);
    for (size_t n = 0; n < good.size(); ++n)
        cr_expect(!plugin_version_in(good.substr(0, n)), "%zu bytes of it", n);
    std::mt19937 engine(8);
    for (int round = 0; round < 100000; ++round) {
        std::string bad = good;
        for (int n = 0; n < 3; ++n) bad[engine() % bad.size()] = static_cast<char>(engine());
        (void)plugin_version_in(bad);
    }
    cr_expect(!plugin_version_of("/nonexistent/plugin.so"));
    cr_expect(!plugin_version_of("/etc/passwd"));
}
