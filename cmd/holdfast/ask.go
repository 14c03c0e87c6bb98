// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type askCmd struct {
	Name string `arg:"" help:"The lock."`
}

// Run …
func (c *askCmd) Run(*app) error { return errors.New("ask: not built yet") }
