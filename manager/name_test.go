// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestLockPath(t *testing.T) {
	want := func(root, name, want string) {
		t.Helper()
		got, err := lockPath(root, name)
		expect(t, got == want && err == nil, "lockPath(%q, %q) = %q, %v; want %q", root, name, got, err, want)
	}
	for _, name := range []string{
		"jobs", "jobs/nightly/eu", "grüße/день/日本", "with space", "...", ".hidden", "zookeeper2", "_taken", "lock-",
		"lock-123", // not ten digits: not a contender
		strings.Repeat("a", maxPath-len("/holdfast/")),
	} {
		want("/holdfast", name, "/holdfast/"+name)
	}
	want("/holdfast", "/jobs", "/holdfast/jobs") // one leading slash is ignored
	want("/a/b", "c", "/a/b/c")
	want("/", "jobs", "/jobs")
	want("/", "/jobs", "/jobs")
}

func TestF018_BadNames(t *testing.T) {
	for what, test := range map[string]struct{ name, says string }{
		"empty":                                {"", "empty"},
		"only a slash":                         {"/", "empty"},
		"two leading slashes":                  {"//a", "empty segment"},
		"slash at the end":                     {"a/", "empty segment"},
		"two slashes in a row":                 {"a//b", "empty segment"},
		"dot":                                  {".", "relative"},
		"dot dot":                              {"..", "relative"},
		"dot in the middle":                    {"a/./b", "relative"},
		"dot dot at the end":                   {"a/..", "relative"},
		"ZooKeeper's own":                      {"zookeeper", "reserved"},
		"ZooKeeper's own, below":               {"a/zookeeper/b", "reserved"},
		"questions":                            {"_asks_", "reserved for questions"},
		"marks, below":                         {"_held_/a", "reserved for the marks"},
		"notes":                                {"_taken_", "reserved for notes"},
		"notes, below":                         {"a/_taken_/b", "reserved for notes"},
		"NUL":                                  {"a\x00b", "U+0000"},
		"control character":                    {"a\nb", "U+000A"},
		"last of the first control characters": {"a\x1fb", "U+001F"},
		"delete":                               {"a\x7fb", "U+007F"},
		"second control characters":            {"a\u0085b", "U+0085"},
		"private use":                          {"a\ue000b", "U+E000"},
		"end of the private use area":          {"a\uf8ffb", "U+F8FF"},
		"specials":                             {"a\ufff0b", "U+FFF0"},
		"not a character":                      {"a\uffffb", "U+FFFF"},
		"beyond the basic plane":               {"a\U0001f512b", "U+1F512"},
		"invalid UTF-8":                        {"a\xffb", "UTF-8"},
		"half a character":                     {"a\xe2\x82", "UTF-8"},
		"an exclusive contender":               {"lock-0000000001", "contender"},
		"a protected contender":                {"a/_c_00112233445566778899aabbccddeeff-lock-0000000001", "contender"},
		"a read contender":                     {"__READ__0000000001", "contender"},
		"a leader latch":                       {"latch-0000000001", "contender"},
		"a protected leader latch":             {"a/_c_00112233445566778899aabbccddeeff-latch-0000000001/b", "contender"},
		"kazoo's contender":                    {"00112233445566778899aabbccddeeff__lock__0000000001", "contender"},
		"too long":                             {strings.Repeat("a", maxPath), "1024"},
		"too long in bytes, not in characters": {strings.Repeat("é", maxPath/2), "1024"},
	} {
		_, err := lockPath("/holdfast", test.name)
		wantErr(t, what, err, ErrBadName)
		wantSays(t, err, test.says)
	}
}

func TestCheckRoot(t *testing.T) {
	for _, root := range []string{"/", "/holdfast", "/a/b/c", "/__READ__00000"} {
		wantErr(t, root, checkRoot(root), nil)
	}
	for _, root := range []string{
		"", "holdfast", "./holdfast", "/holdfast/", "//holdfast", "/a/../b", "/zookeeper/a", "/_taken_", "/a\x00", "/a\xff", "/\U0001f512",
	} {
		expect(t, checkRoot(root) != nil, "checkRoot accepts %q", root)
	}
}

// Exclusive refuses a bad name with an error that shows it. It sends no request,
// whether the name is good or bad.
func TestExclusiveDoesNoIO(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		n := c.tally(m)
		for _, name := range []string{"", "a//b", "a/..", "zookeeper", "\U0001f512"} {
			l, err := m.Exclusive(name)
			var e *Error
			expect(c.t, l == nil && errors.Is(err, ErrBadName) && errors.As(err, &e) && e.Op == "exclusive" && e.Name == name,
				"Exclusive(%q) = %v, %v; want ErrBadName with the operation and the name", name, l, err)
		}
		l := exclusive(c.t, m, "/good/name")
		expect(c.t, l.Name() == "good/name" && l.Path() == "/holdfast/good/name", "got name %q, path %q", l.Name(), l.Path())
		n.want("Exclusive", "")
	})
}

func TestEscape(t *testing.T) {
	want := func(id, want string) {
		t.Helper()
		got := Escape(id)
		expect(t, got == want, "Escape(%q) = %q, want %q", id, got, want)
	}
	for _, id := range []string{
		"plain-name_1.txt", "with space", "größe", "日本", "...", "Zookeeper", strings.Repeat("x", maxEscaped),
	} {
		want(id, id)
	}
	for id, escaped := range map[string]string{
		"":                 "%",
		"a/b":              "a%2Fb",
		"/":                "%2F",
		"100%":             "100%25",
		"%2F":              "%252F",
		"%":                "%25",
		".":                "%2E",
		"..":               "%2E.",
		"zookeeper":        "%7Aookeeper",
		"_asks_":           "%5Fasks_",
		"_held_":           "%5Fheld_",
		"_taken_":          "%5Ftaken_",
		"latch-0000000001": "%6Catch-0000000001",
		"a\x00b\n":         "a%00b%0A",
		"\x7f\u0085":       "%7F%C2%85",
		"\ue000":           "%EE%80%80",
		"\ufffd":           "%EF%BF%BD", // a valid one, not a sign of a broken encoding
		"\xff\xfe":         "%FF%FE",
		"\U0001f512":       "%F0%9F%94%92",
		"lock-0000000001":  "%6Cock-0000000001",
		"_c_00112233445566778899aabbccddeeff-lock-0000000001": "%5Fc_00112233445566778899aabbccddeeff-lock-0000000001",
		"https://example.org/a?b=c":                           "https:%2F%2Fexample.org%2Fa?b=c",
	} {
		want(id, escaped)
	}
}

// Long ids are cut, and still differ.
func TestEscapeLong(t *testing.T) {
	seen := make(map[string]string)
	for _, id := range []string{
		strings.Repeat("x", maxEscaped+1),
		strings.Repeat("x", maxEscaped+2),
		strings.Repeat("x", maxEscaped) + "y",
		strings.Repeat("/", 100),
		strings.Repeat("/", 101),
		strings.Repeat("é", maxEscaped),
		"x" + strings.Repeat("é", maxEscaped), // cut in the middle of a character
		"xy" + strings.Repeat("日本", maxEscaped),
		strings.Repeat("\xff", 1<<14),
	} {
		s := Escape(id)
		checkEscaped(t, id, s)
		other, ok := seen[s]
		expect(t, !ok, "Escape gives %q for two ids of %d and %d bytes", s, len(id), len(other))
		seen[s] = id
		n := min(len(id), 20)
		expect(t, !strings.HasPrefix(id, "x") || strings.HasPrefix(s, id[:2]),
			"Escape(%q…) = %q does not begin as the id does", id[:n], s)
	}
}

// checkEscaped checks that s is a legal segment, as the result of Escape for any id is.
func checkEscaped(t *testing.T, id, s string) {
	t.Helper()
	expect(t, len(s) <= maxEscaped, "Escape(%q) has %d bytes", id, len(s))
	expect(t, !strings.Contains(s, "/"), "Escape(%q) = %q has more than one segment", id, s)
	_, err := lockPath("/holdfast", "a/"+s+"/b")
	expect(t, err == nil, "Escape(%q) = %q is no legal segment: %v", id, s, err)
	expect(t, zooKeeperTakes(s), "Escape(%q) = %q: ZooKeeper refuses it", id, s)
}

// zooKeeperTakes is ZooKeeper's own check of a path's characters, which are UTF-16
// code units.
func zooKeeperTakes(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, c := range utf16.Encode([]rune(s)) {
		if c <= 0x001f || c >= 0x007f && c <= 0x009f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0 {
			return false
		}
	}
	return true
}

// unescape is the inverse of Escape for results that were not cut. That there is one
// shows that different ids give different segments.
func unescape(s string) (id string, cut bool) {
	if s == "%" {
		return "", false
	}
	id, err := url.PathUnescape(s)
	return id, err != nil // it has a "%~", which is not the escape of any byte
}

func FuzzEscape(f *testing.F) {
	for _, id := range []string{
		"", ".", "..", "/", "%", "%~", "%2F", "a/b", "zookeeper", "_taken_", "lock-0000000001", "\U0001f512", "\xff", "\ufffd", "\x00",
		"_c_00112233445566778899aabbccddeeff-__READ__-2147483648",
		strings.Repeat("x", 300), strings.Repeat("é", 200), strings.Repeat("/", 85), strings.Repeat("/", 86),
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		s := Escape(id)
		checkEscaped(t, id, s)
		back, cut := unescape(s)
		expect(t, cut || back == id, "Escape(%q) = %q, which reads %q", id, s, back)
	})
}

func FuzzLockPath(f *testing.F) {
	for _, name := range []string{"a", "/a", "a/b", "a//b", "..", "zookeeper", "\U0001f512", "a\xff", "lock-0000000001"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		path, err := lockPath("/holdfast", name)
		if err != nil {
			expect(t, path == "" && errors.Is(err, ErrBadName), "lockPath(%q) = %q, %v", name, path, err)
			return
		}
		wantEq(t, "the path of "+name, path, "/holdfast/"+strings.TrimPrefix(name, "/"))
		for segment := range strings.SplitSeq(path[1:], "/") {
			expect(t, !slices.Contains([]string{"", ".", "..", "zookeeper"}, segment) && zooKeeperTakes(segment),
				"lockPath(%q) = %q, with segment %q", name, path, segment)
		}
	})
}

// LockPath refuses what Open and the manager refuse.
func TestLockPathForTools(t *testing.T) {
	for _, test := range []struct {
		root, name, want string
		err              error
	}{
		{"/holdfast", "jobs/nightly", "/holdfast/jobs/nightly", nil},
		{"/", "/jobs", "/jobs", nil},
		{"/holdfast", "a//b", "", ErrBadName},
		{"holdfast", "a", "", ErrBadConfig},
		{"/holdfast/", "a", "", ErrBadConfig},
	} {
		got, err := LockPath(test.root, test.name)
		expect(t, got == test.want && errors.Is(err, test.err),
			"LockPath(%q, %q) = %q, %v; want %q, %v", test.root, test.name, got, err, test.want, test.err)
	}
}
