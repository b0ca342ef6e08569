package weburl

import "testing"

// All spellings of a row become its first one.
func TestNormalize(t *testing.T) {
	for _, row := range [][]string{
		{"http://a.example/", "http://a.example", "HTTP://A.Example/", "http://a.example:80", "http://a.example./", "http://a.example/#top", "http://a.example/?", " http://a.example/\t", "http://a.example/./", "http://a.example/x/..", "http://a.example:/"},
		{"https://a.example/", "https://a.example:443", "https://A.EXAMPLE:443/#"},
		{"http://a.example:443/", "http://A.example:443"},
		{"http://a.example/b/c?q=1&p=2", "http://a.example/b/./c?q=1&p=2", "http://a.example/x/../b/c?q=1&p=2#f"},
		{"http://a.example/b?p=2&q=1"}, // another order of the query is another page
		{"http://a.example/~u/A%2FB", "http://a.example/%7eu/%41%2fB", "http://a.example/%7Eu/A%2fB"},
		{"http://a.example/x/", "http://a.example/x/."},
		{"http://a.example/B"}, // a path has its case
		{"http://a.example/%zz", " http://a.example/%zz "},
		{"http://[2001:db8::1]/", "http://[2001:DB8::1]:80/"},
		{"http://u:p@a.example/", "http://u:p@A.example"},
		{"not a URL", "not a URL "},
		{"mailto:a@b.example"},
		{""},
	} {
		for _, spelling := range row {
			if got := Normalize(spelling); got != row[0] {
				t.Errorf("Normalize(%q) = %q, want %q", spelling, got, row[0])
			}
		}
	}
}

// A spelling that is normal already stays, whatever it was made from.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"http://a/%7e/../b?c#d", "//A:80", "http://a/%2e%2e/b", "HTTP://é.example:80/%C3%a9", "http://a/b%", "http://a//../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Normalize(s)
		if twice := Normalize(once); twice != once {
			t.Errorf("%q, then %q, then %q", s, once, twice)
		}
	})
}
