// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a script that completes verbs, flags and their values.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help describes the verb.
func (*completionCmd) Help() string {
	return `Examples:

    source <(holdfast completion bash)       # in ~/.bashrc
    source <(holdfast completion zsh)        # in ~/.zshrc, after compinit
    holdfast completion fish | source        # in ~/.config/fish/config.fish`
}

// Run prints the script.
func (c *completionCmd) Run(a *app) error {
	verbs := completions(a.parser.Model)
	var script string
	switch c.Shell {
	case "bash":
		script = bashCompletion(verbs)
	case "zsh": // it runs bash's script
		script = "autoload -U +X bashcompinit && bashcompinit\n" + bashCompletion(verbs)
	case "fish":
		script = fishCompletion(verbs)
	}
	_, err := io.WriteString(a.stdout, script)
	return err
}

// A completion is what can follow a verb. The one without a name is for the place of the
// verb.
type completion struct {
	verb, help string
	words      []string // arguments from a fixed choice
	flags      []completedFlag
}

// A completedFlag is a flag with what can follow it.
type completedFlag struct {
	name, help string
	takesValue bool
	values     []string // nil: anything
	file       bool
}

// completions returns what can be completed, the verbs in the order of --help.
func completions(model *kong.Application) (verbs []completion) {
	for _, node := range model.Children {
		if node.Hidden {
			continue
		}
		v := completion{verb: node.Name, help: node.Help}
		for _, arg := range node.Positional {
			v.words = append(v.words, enum(arg)...)
		}
		flags := node.AllFlags(true)
		for _, sub := range node.Children {
			v.words = append(v.words, sub.Name)
			flags = append(flags, sub.Flags)
		}
		for _, group := range flags {
			for _, f := range group {
				if slices.ContainsFunc(v.flags, func(old completedFlag) bool { return old.name == "--"+f.Name }) {
					continue
				}
				v.flags = append(v.flags, completedFlag{
					name:       "--" + f.Name,
					help:       f.Help,
					takesValue: !f.IsBool(),
					values:     enum(f.Value),
					file:       f.PlaceHolder == "FILE",
				})
			}
		}
		verbs = append(verbs, v)
	}
	return verbs
}

// enum returns the values that v can have, if there are few.
func enum(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// bashCompletion returns the script for bash. After the program of "holdfast run" it
// leaves the completion to that program.
func bashCompletion(verbs []completion) string {
	var names, valued []string // verbs, and flags that take a value
	var flags, values strings.Builder
	for _, v := range verbs {
		names = append(names, v.verb)
		words := slices.Clone(v.words)
		for _, f := range v.flags {
			words = append(words, f.name)
			if !f.takesValue || slices.Contains(valued, f.name) {
				continue
			}
			valued = append(valued, f.name)
			complete := fmt.Sprintf("COMPREPLY=($(compgen -W %q -- \"$word\"))", strings.Join(f.values, " "))
			if f.file {
				complete = `COMPREPLY=($(compgen -f -- "$word"))`
			}
			fmt.Fprintf(&values, "    %s) %s; return ;;\n", f.name, complete)
		}
		fmt.Fprintf(&flags, "    %s) words=%q ;;\n", v.verb, strings.Join(words, " "))
	}
	return fmt.Sprintf(`_holdfast() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb= words= i
  COMPREPLY=()
  if [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $word == "=" ]]; then
    word=
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    --) return ;;
    %s) [[ ${COMP_WORDS[i+1]} == "=" ]] && ((i++)); ((i++)) ;;
    -*) ;;
    *) [[ -z $verb ]] && verb=${COMP_WORDS[i]} ;;
    esac
  done
  case $before in
%s  esac
  case $verb in
    "") words=%q ;;
%s  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _holdfast holdfast
`, strings.Join(valued, "|"), values.String(), strings.Join(names, " "), flags.String())
}

// fishCompletion returns the script for fish.
func fishCompletion(verbs []completion) string {
	var b strings.Builder
	b.WriteString("complete -c holdfast -f\n")
	for _, v := range verbs {
		fmt.Fprintf(&b, "complete -c holdfast -n __fish_use_subcommand -a %s -d %s\n", v.verb, fishQuote(v.help))
		after := fishQuote("__fish_seen_subcommand_from " + v.verb)
		if len(v.words) > 0 {
			fmt.Fprintf(&b, "complete -c holdfast -n %s -a %s\n", after, fishQuote(strings.Join(v.words, " ")))
		}
		for _, f := range v.flags {
			line := fmt.Sprintf("complete -c holdfast -n %s -l %s -d %s", after, strings.TrimPrefix(f.name, "--"), fishQuote(f.help))
			switch {
			case f.file:
				line += " -r -F"
			case f.values != nil:
				line += " -x -a " + fishQuote(strings.Join(f.values, " "))
			case f.takesValue:
				line += " -x"
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// fishQuote quotes a text for fish.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
