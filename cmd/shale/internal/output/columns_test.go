package output

import "testing"

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abcdef": 6, "日本語": 6, "cafe\u0301s": 5} {
		if got := columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
}
