// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type revokeCmd struct {
	Name string `arg:"" help:"The lock."`
}

// Run …
func (c *revokeCmd) Run(*app) error { return errors.New("revoke: not built yet") }
