// SPDX-License-Identifier: Apache-2.0

package small

type bell interface{ ring() }

type gong struct{}

/*
The second longest walk: that of House.Visit does not come here.
*/
func (gong) ring() { echo(); echo() }

func echo() {}
