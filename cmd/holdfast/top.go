// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	_ "github.com/gdamore/tcell/v2" // for the table
)

type topCmd struct {
	Prefix string `arg:"" optional:"" help:"Only locks whose names begin with this."`
}

// Run …
func (c *topCmd) Run(*app) error { return errors.New("top: not built yet") }
