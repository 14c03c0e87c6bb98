// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type runCmd struct{}

// Run …
func (c *runCmd) Run(*app) error { return errors.New("run: not built yet") }
