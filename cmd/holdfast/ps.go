// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

type psCmd struct{}

// Run …
func (c *psCmd) Run(*app) error { return errors.New("ps: not built yet") }
