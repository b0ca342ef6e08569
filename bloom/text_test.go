package bloom

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// A filter over a function of the caller's own is read into one that has it.
func TestFilter_TextWithOwnHash(t *testing.T) {
	f := filterOf(t, ownOptions(FirstOwnHashID+70), 0, 100)
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, new(Filter)); !errors.Is(err, ErrUnknown) {
		t.Errorf("into a filter that has not the function: %v", err)
	}
	again := filterOf(t, ownOptions(FirstOwnHashID+70), 0, 0)
	if err := json.Unmarshal(b, again); err != nil || !again.MayContain(filtertest.Numbered(5)) || again.Count() != f.Count() {
		t.Errorf("into a filter that has it: %v, %v", again, err)
	}
	if _, err := json.Marshal(filterOf(t, ownOptions(0), 0, 1)); !errors.Is(err, ErrNoHashID) {
		t.Errorf("of a function without an id: %v", err)
	}
}

// A hash function survives in options that are written as JSON. Its text contains its
// secret, and String does not.
func TestHasher_Text(t *testing.T) {
	for _, c := range []struct {
		id    HashID
		seed  uint64
		text  string
		print string
	}{
		{HashMurmur3, 0, "murmur3", "murmur3"},
		{HashXXH3, 0, "xxh3:0000000000000000", "xxh3:0000000000000000"},
		{HashXXH3, 1<<63 + 5, "xxh3:8000000000000005", "xxh3:8000000000000005"},
		{HashSipHash, 0xabcdef, "siphash:0000000000abcdef", "siphash"},
	} {
		h, err := NewHasher(c.id, c.seed)
		if err != nil {
			t.Fatal(err)
		}
		in := StaticOptions{BitsPerKey: 5, Hasher: h}
		b, err := json.Marshal(in)
		if err != nil || !strings.Contains(string(b), `"Hasher":"`+c.text+`"`) {
			t.Errorf("%v: %s, %v", c.id, b, err)
		}
		var out StaticOptions
		if err := json.Unmarshal(b, &out); err != nil || out != in {
			t.Errorf("%v: %s is read as %v, %v", c.id, b, out, err)
		}
		if got := fmt.Sprint(in); !strings.Contains(got, " "+c.print+"}") {
			t.Errorf("%v prints as %s", c.id, got)
		}
	}
	for _, text := range []string{"", "murmur3:5", "murmur3:0000000000000000", "xxh3", "xxh3:", "xxh3:xyz", "md5", "siphash", "unknown"} {
		h := Hasher{id: HashXXH3, seed: 9}
		if err := h.UnmarshalText([]byte(text)); !errors.Is(err, ErrUnknown) || h != (Hasher{id: HashXXH3, seed: 9}) {
			t.Errorf("UnmarshalText(%q) = %v", text, err)
		}
	}
}
