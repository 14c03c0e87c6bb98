// SPDX-License-Identifier: Apache-2.0

// Elsewhere type-checks a module, tests included, for other platforms than this one: names
// that a platform lacks, constants too large for its int. Unlike go vet it compiles nothing,
// neither the module nor the standard library, which takes minutes for each platform.
//
//	elsewhere -dir . darwin/arm64 windows/amd64 linux/386
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("dir", ".", "the module to check")
	patterns := flag.String("packages", "./...", "of it and of the modules that its go.work joins, the packages to check")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "elsewhere: no platform given, such as windows/amd64")
		os.Exit(2)
	}
	sound := true
	for _, platform := range flag.Args() {
		found, err := check(os.Stdout, *dir, strings.Fields(*patterns), platform)
		if err != nil {
			fmt.Fprintf(os.Stderr, "elsewhere: checking for %s: %v\n", platform, err)
			os.Exit(1)
		}
		sound = sound && found == 0
	}
	if !sound {
		os.Exit(1)
	}
}

// check prints the errors of packages of the module in dir, and of those that they import, on a platform, and returns how many there are.
func check(out io.Writer, dir string, patterns []string, platform string) (found int, err error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, fmt.Errorf("want a system and an architecture, such as windows/amd64")
	}
	all, err := packages.Load(&packages.Config{
		Mode:      packages.LoadAllSyntax &^ packages.NeedTypesInfo,
		Dir:       dir,
		Env:       append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0"),
		Tests:     true,
		ParseFile: parse,
	}, patterns...)
	if err != nil {
		return 0, err
	}
	checked := 0
	packages.Visit(all, nil, func(p *packages.Package) {
		checked++
		if len(p.GoFiles) > 0 && standard(p.GoFiles[0]) {
			return
		}
		for _, e := range p.Errors {
			found++
			fmt.Fprintf(out, "%s: %v\n", platform, e)
		}
	})
	if checked == 0 {
		return 0, fmt.Errorf("there are no packages in %s", dir)
	}
	fmt.Fprintf(out, "%s: %d packages checked, %d errors\n", platform, checked, found)
	return found, nil
}

// parse is the parser of packages.Load, but leaves out the bodies of the standard library's
// functions: they compile, whatever the platform, and to check them takes most of the time.
// Their absence shows in errors of these packages, which therefore do not count.
func parse(files *token.FileSet, name string, text []byte) (*ast.File, error) {
	file, err := parser.ParseFile(files, name, text, parser.AllErrors|parser.SkipObjectResolution)
	if file != nil && standard(name) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
	}
	return file, err
}

// standard reports whether a file is one of the standard library.
func standard(name string) bool {
	return strings.HasPrefix(name, filepath.Join(build.Default.GOROOT, "src")+string(filepath.Separator))
}
