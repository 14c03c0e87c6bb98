// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type breakCmd struct {
	Name string `arg:"" help:"The lock."`
}

// Run …
func (c *breakCmd) Run(*app) error { return errors.New("break: not built yet") }
