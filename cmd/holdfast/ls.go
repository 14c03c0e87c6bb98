// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type lsCmd struct {
	Prefix string `arg:"" optional:"" help:"Only locks whose names begin with this."`
}

// Run …
func (c *lsCmd) Run(*app) error { return errors.New("ls: not built yet") }
