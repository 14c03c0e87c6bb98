// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// manCmd prints a manual page, from what --help is made of.
type manCmd struct {
	Verb string `arg:"" optional:"" help:"The verb; without it, the page of the command itself."`
}

// Help describes the verb.
func (*manCmd) Help() string {
	return `Examples:

    holdfast man run | man -l -
    holdfast man > /usr/local/share/man/man1/holdfast.1`
}

// Run prints the page.
func (c *manCmd) Run(a *app) error {
	model := a.parser.Model
	page := manual{}
	if c.Verb == "" {
		page.command(model)
	} else {
		i := slices.IndexFunc(model.Children, func(n *kong.Node) bool { return n.Name == c.Verb })
		if i < 0 {
			return usagef("there is no verb %q; holdfast --help lists them", c.Verb)
		}
		page.verb(model.Children[i])
	}
	_, err := io.WriteString(a.stdout, page.String())
	return err
}

// A manual is a manual page, in the macros of man(7).
type manual struct{ strings.Builder }

// command writes the page of the command itself.
func (p *manual) command(model *kong.Application) {
	p.head("holdfast", model.Help)
	p.section("SYNOPSIS")
	p.text("holdfast VERB [FLAG...] [ARGUMENT...]")
	p.section("VERBS")
	p.text("Each verb has a page of its own: holdfast-run(1) and so on.")
	for _, node := range model.Children {
		if !node.Hidden {
			p.item(node.Name, node.Help)
		}
	}
	p.section("FLAGS OF ALL VERBS")
	p.flags(model.Flags)
	p.section("SEE ALSO")
	p.text("https://github.com/holdfast-go/holdfast/blob/main/docs/command.md has a transcript, the exit codes, and what each verb prints as JSON.")
}

// verb writes the page of a verb.
func (p *manual) verb(node *kong.Node) {
	p.head("holdfast-"+node.Name, node.Help)
	p.section("SYNOPSIS")
	if len(node.Children) == 0 {
		p.text("holdfast " + node.Summary())
	}
	for _, sub := range node.Children {
		p.text("holdfast " + sub.Summary())
	}
	p.section("DESCRIPTION")
	p.text(node.Detail)
	for _, sub := range node.Children {
		p.section(strings.ToUpper(node.Name + " " + sub.Name))
		p.text(sub.Help)
		p.text(sub.Detail)
		p.arguments(sub)
	}
	p.arguments(node)
	p.section("SEE ALSO")
	p.text("holdfast(1) has the flags of all verbs. https://github.com/holdfast-go/holdfast/blob/main/docs/command.md has the exit codes, and what each verb prints as JSON.")
}

// arguments writes the arguments and flags of a verb or of a part of one.
func (p *manual) arguments(node *kong.Node) {
	if len(node.Positional)+len(node.Flags) > 0 {
		p.WriteString(".SS \"Arguments and flags\"\n")
	}
	for _, arg := range node.Positional {
		p.item(arg.Summary(), arg.Help)
	}
	p.flags(node.Flags)
}

func (p *manual) flags(flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		if f.Short != 0 {
			name = fmt.Sprintf("-%c, %s", f.Short, name)
		}
		p.item(name, f.Help)
	}
}

func (p *manual) head(name, what string) {
	fmt.Fprintf(p, ".TH %s 1\n.nh\n", quoted(strings.ToUpper(name)))
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", escaped(name), escaped(strings.TrimSuffix(what, ".")))
}

func (p *manual) section(title string) { fmt.Fprintf(p, ".SH %s\n", quoted(title)) }

// text writes paragraphs; lines that are indented stay as they are.
func (p *manual) text(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		p.WriteString(".PP\n")
		asIs := false
		for line := range strings.SplitSeq(paragraph, "\n") {
			if indented := strings.HasPrefix(line, "  "); indented != asIs {
				asIs = indented
				p.WriteString(map[bool]string{true: ".RS 4\n.nf\n", false: ".fi\n.RE\n"}[asIs])
			}
			p.line(strings.TrimLeft(line, " "))
		}
		if asIs {
			p.WriteString(".fi\n.RE\n")
		}
	}
}

func (p *manual) item(name, what string) {
	fmt.Fprintf(p, ".TP\n.B %s\n", quoted(name))
	p.line(what)
}

// line writes a line of text, which is no request even if it begins as one.
func (p *manual) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		p.WriteString(`\&`)
	}
	p.WriteString(escaped(text) + "\n")
}

var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`)

func escaped(text string) string { return roff.Replace(text) }

// quoted returns a text as one argument of a macro.
func quoted(text string) string { return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"` }
