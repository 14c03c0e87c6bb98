// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// A size is that of one package.
type size struct{ files, code, tests int }

// sizes has those of a module and of the modules in it, by directory. Files for other
// operating systems count, and so do tests of every kind.
type sizes map[string]size

func measure(dir string) (sizes, error) {
	found, tree := sizes{}, os.DirFS(dir)
	return found, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base[0] == '.' || base[0] == '_'):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		p := found[path.Dir(name)]
		if strings.HasSuffix(name, "_test.go") {
			p.tests += codeLines(text)
		} else {
			p.files++
			p.code += codeLines(text)
		}
		found[path.Dir(name)] = p
		return nil
	})
}

// codeLines counts the lines that are neither blank nor comment alone: those on which a
// token stands.
func codeLines(text []byte) (n int) {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	last := 0 // the last line counted
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return n
		case tok == token.SEMICOLON && lit != ";":
			continue // the scanner put it there
		}
		first := file.Line(pos)
		end := first + strings.Count(lit, "\n")
		n += end - max(first-1, last)
		last = end
	}
}

func (s sizes) print(t table) {
	var all size
	one := func(name string, p size) {
		t.add(name, "files", p.files)
		t.add(name, "lines of code", p.code)
		t.add(name, "lines of tests", p.tests)
	}
	for _, dir := range slices.Sorted(maps.Keys(s)) {
		p := s[dir]
		one(dir, p)
		all = size{all.files + p.files, all.code + p.code, all.tests + p.tests}
	}
	one("all", all)
}
