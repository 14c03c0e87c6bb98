// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuoted is how many bytes of another process's text errors and logs show.
const maxQuoted = 128

// cut returns the beginning of a text that another process has written.
func cut(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

// readable returns such a text for a person: unchanged if it is one word of printable
// characters, and quoted otherwise.
func readable(s string) string {
	s = cut(s)
	if strings.ContainsFunc(s, func(r rune) bool {
		return r == '"' || r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsGraphic(r)
	}) {
		return strconv.Quote(s)
	}
	return s
}

// quoted quotes a name for an error. Of one that is too long for a name, or would be when
// quoted, it quotes the beginning, and says how long it is.
func quoted(name string) string {
	if len(name) <= maxPath {
		if q := strconv.Quote(name); len(q) <= maxPath {
			return q
		}
	}
	end := min(len(name), maxQuoted)
	for end < len(name) && end > maxQuoted-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	return fmt.Sprintf("%q (%d bytes)", name[:end]+"…", len(name))
}
