// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type whoCmd struct {
	Name string `arg:"" help:"The lock."`
}

// Run …
func (c *whoCmd) Run(*app) error { return errors.New("who: not built yet") }
