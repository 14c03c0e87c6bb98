// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// A page is docs/others.md.
type page struct {
	Duration time.Duration
	Faults   []string
	Rows     []row
	Missing  []string // clients that are not installed
}

//go:embed page.tmpl
var text string

func (p page) write(out io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"duration": figures.Duration,
		"join":     strings.Join,
		"rate":     func(x float64) string { return fmt.Sprintf("%.0f", x) },
		"seconds":  func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) },
	}).Parse(text)
	if err != nil {
		return err
	}
	return t.Execute(out, p)
}
