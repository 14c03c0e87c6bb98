// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type watchCmd struct {
	Name string `arg:"" help:"The lock."`
}

// Run …
func (c *watchCmd) Run(*app) error { return errors.New("watch: not built yet") }
