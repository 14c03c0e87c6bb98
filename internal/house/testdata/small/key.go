// SPDX-License-Identifier: Apache-2.0

package small

import "strings"

type key struct{ teeth string }

func (k *key) insert() {
	k.teeth = strings.TrimSpace(`
		|  |
	`)
}

func (k *key) turn() { hinge[int]{}.creak() }
