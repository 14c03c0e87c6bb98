// SPDX-License-Identifier: Apache-2.0

// Command holdfast runs programs under distributed locks, and shows what an operator
// asks about such locks: which processes hold them, which wait, and why.
//
//	holdfast run jobs/nightly -- ./nightly.sh
//	holdfast who jobs/nightly
//
// See docs/command.md, or holdfast --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == guardVerb {
		os.Exit(guardMain(os.Args[2:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs the command with these arguments and returns its exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &writer{w: stdout}
	return report(stderr, out.failed(run(args, stdin, out, stderr)))
}

// run runs the command with these arguments.
func run(args []string, stdin io.Reader, stdout *writer, stderr io.Writer) error {
	c := new(cli)
	parser := newParser(c, stdout, stderr)
	parsed, err := parse(parser, c, spelled(args))
	if err != nil {
		return usageError(err)
	}
	ctx, stop := untilSignal(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	a := &app{
		globals: &c.globals,
		ctx:     ctx,
		stdin:   stdin,
		stdout:  stdout,
		stderr:  stderr,
		asJSON:  c.JSON,
		verb:    parsed.Selected().Name,
		parser:  parser,
		given:   make(map[string]bool),
	}
	for _, p := range parsed.Path {
		if p.Flag != nil {
			a.given[p.Flag.Name] = true
		}
	}
	if err := a.checkName(parsed.Selected()); err != nil {
		return err
	}
	err = parsed.Run(a)
	if sig, ok := errors.AsType[*signalError](context.Cause(ctx)); ok && err != nil && !errors.As(err, new(*exitError)) {
		err = &exitError{code: signalCode(sig.signal)}
	}
	return err
}

// spelled returns the command line with what users of other commands try, "--version" and
// "help VERB", as this one has it.
func spelled(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// parse parses the command line into c. Of a program's arguments behind "--", the parser
// sees only the first: it takes minutes for many, and replaces what is not UTF-8.
func parse(parser *kong.Kong, c *cli, args []string) (*kong.Context, error) {
	shown := args
	runs := func(arg string) bool { return arg == "run" || arg == "elect" || arg == "cron" }
	if end := slices.Index(args, "--"); end >= 0 && slices.ContainsFunc(args[:end], runs) {
		shown = args[:min(end+2, len(args))]
	}
	parsed, err := parser.Parse(shown)
	switch {
	case err != nil:
		return nil, err
	case len(c.Run.Command) > 0:
		c.Run.Command = args[len(shown)-len(c.Run.Command):] // it was at the end
	case len(c.Elect.Command) > 0:
		c.Elect.Command = args[len(shown)-len(c.Elect.Command):]
	case len(c.Cron.Command) > 0:
		c.Cron.Command = args[len(shown)-len(c.Cron.Command):]
	case len(shown) < len(args):
		return parser.Parse(args) // "run", "elect" or "cron" was no verb
	}
	return parsed, nil
}

// newParser returns the parser of the command line into c.
func newParser(c *cli, stdout, stderr io.Writer) *kong.Kong {
	return kong.Must(c,
		kong.Name("holdfast"),
		kong.Description("Distributed locks on Apache ZooKeeper: run programs under them, and see which processes hold them."),
		kong.Writers(stdout, stderr),
		kong.Help(help),
		kong.ValueFormatter(withDefault),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "global", Title: "Global flags:"}}),
	)
}

// withDefault returns the help of a flag or an argument. If a placeholder stands where the
// parser shows the default, the text has it.
func withDefault(v *kong.Value) string {
	if v.Flag == nil || v.Flag.PlaceHolder == "" || !v.HasDefault {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + v.Default + " by default)."
}

// help prints the help of the whole command or of a verb. The global flags, which are many,
// are in the former only.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	for _, f := range ctx.Model.Flags {
		f.Hidden = f.Group != nil
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintln(ctx.Stdout, "\nThe global flags, such as --servers and --json: holdfast --help")
	return err
}

// usageError returns the error of a command line that cannot be parsed. It says where
// to read on.
func usageError(err error) error {
	help := "holdfast --help"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
		if verb := parse.Context.Selected(); verb != nil {
			help = verb.FullPath() + " --help"
		}
	}
	return usagef("%w; see %s", err, help)
}

// report writes err as one line, if it says anything, and returns the exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if text := oneLine(err); text != "" {
		fmt.Fprintf(stderr, "holdfast: %s\n", text)
	}
	return exitCode(err)
}

// oneLine returns the text of err without the prefixes of the packages that it comes
// from.
func oneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "holdfast: ")
	text = strings.Replace(strings.TrimPrefix(text, "open: "), "zkio: open: ", "", 1)
	return strings.ReplaceAll(text, "\n", "; ")
}

// untilSignal returns a context that ends at the first of the signals, with a
// *signalError as its cause. Signals that are ignored, as by nohup, stay so. Call stop
// when the context is no longer needed.
func untilSignal(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := notify(signals...)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-received:
			cancel(&signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
		<-watched
	}
}

// notify has the signals sent to the channel that it returns, except those that are
// ignored.
func notify(signals ...os.Signal) chan os.Signal {
	received := make(chan os.Signal, 16)
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(received, s)
		}
	}
	return received
}

// A signalError is the cause of a context that a signal has ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return e.signal.String() }
