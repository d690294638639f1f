// SPDX-License-Identifier: Apache-2.0
// rgpu completion: what a shell needs to complete rgpu's commands and options.
#include <string>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"

namespace rgpu::cli {
namespace {

// The names of commands on the way to the word that is completed are `path`, like " slurm check".
// Behind "--" stands another command.
constexpr const char *kBash = R"(_rgpu()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} path= words files i
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [ "${COMP_WORDS[i]}" = -- ]; then
            [ $((i + 1)) != "$COMP_CWORD" ] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
            return
        fi
        case "$path ${COMP_WORDS[i]}" in
        @PATHS@) path+=" ${COMP_WORDS[i]}" ;;
        esac
    done
    case $path in
@CASES@    esac
    case " $files " in *" $before "*) return ;; esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _rgpu rgpu
)";

constexpr const char *kZsh = R"(#compdef rgpu
_rgpu()
{
    local all files path= i
    for ((i = 2; i < CURRENT; i++)); do
        if [[ ${words[i]} = -- ]]; then
            shift $i words
            ((CURRENT -= i))
            _normal
            return
        fi
        case "$path ${words[i]}" in
        @PATHS@) path+=" ${words[i]}" ;;
        esac
    done
    case $path in
@CASES@    esac
    if [[ " $files " = *" ${words[CURRENT - 1]} "* ]]; then
        _files
    else
        compadd -- ${=all} || _files
    fi
}
_rgpu "$@"
)";

struct Tree {
    std::string paths;  // "' run' | ' slurm check'"
    std::string cases;
};

// `list`: the shell's variable for all words.
void add(const CLI::App &app, const std::string &path, const char *list, Tree &tree)
{
    std::string words, files;
    for (const CLI::App *sub : app.get_subcommands({})) words += " " + sub->get_name();
    for (const CLI::Option *option : app.get_options()) {
        const bool is_file = option->get_type_name() == "FILE";
        for (const std::string &name : option->get_lnames()) {
            words += " --" + name;
            if (is_file) files += " --" + name;
        }
        for (const std::string &name : option->get_snames())
            if (is_file) files += " -" + name;
    }
    tree.cases += "    '" + path + "') " + list + "='" + words + "' files='" + files + "' ;;\n";
    for (const CLI::App *sub : app.get_subcommands({})) {
        const std::string below = path + " " + sub->get_name();
        tree.paths += (tree.paths.empty() ? "'" : " | '") + below + "'";
        add(*sub, below, list, tree);
    }
}

std::string filled(std::string text, const std::string &mark, const std::string &with)
{
    return text.replace(text.find(mark), mark.size(), with);
}

class Completion : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("SHELL", shell_, "bash or zsh")
            ->required()
            ->check(CLI::IsMember({"bash", "zsh"}));
        app.footer("make install puts both where the shells look. By hand:\n"
                   "  source <(rgpu completion bash)");
    }

    int run(Context &context) override
    {
        const bool bash = shell_ == "bash";
        Tree tree;
        add(*context.app, "", bash ? "words" : "all", tree);
        return print(
            filled(filled(bash ? kBash : kZsh, "@PATHS@", tree.paths), "@CASES@", tree.cases));
    }

private:
    std::string shell_;
};

const Registered<Completion> completion{"", "completion",
                                        "Print what bash or zsh needs to complete rgpu's words"};

}  // namespace
}  // namespace rgpu::cli
