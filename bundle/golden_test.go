package bundle

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden bundles anew: a change of the format")

// exampleModel is the bundle that docs/FORMAT.md shows.
func exampleModel(t testing.TB) *model {
	m := &model{spec: Spec{StoreID: 0x1122334455667788, Seq: 9, Created: time.Unix(1_700_000_000, 0)}}
	m.addRun(t, 0, 1, 0, [][]byte{[]byte("a"), []byte("cd")})
	m.addRun(t, 6, 1, 10, [][]byte{[]byte("key-0"), []byte("key-1")})
	return m
}

// readGolden returns a golden file, and writes it first if -update is given.
func readGolden(t testing.TB, name string, made []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bundles written by earlier programs open and hold their keys, and this one
// writes the same bytes.
func TestGolden_Version1(t *testing.T) {
	for name, m := range map[string]*model{"example": exampleModel(t), "small": smallModel(t), "empty": {spec: Spec{Created: time.Unix(0, 0)}}} {
		made := m.bytes(t)
		kept := readGolden(t, name+"-v1.bundle", made)
		if !bytes.Equal(made, kept) {
			t.Errorf("%s: the bundle's bytes changed", name)
		}
		b := mustOpen(t, kept)
		m.each(func(key []byte) {
			if !b.MayContain(key) {
				t.Errorf("%s: MayContain(%q) = false for a key of it", name, key)
			}
		})
	}
}

// A bundle of a later version is refused as such, whatever follows the version, because
// this program cannot know whether it is damaged.
func TestGolden_Version2(t *testing.T) {
	next := exampleModel(t).bytes(t)
	binary.LittleEndian.PutUint32(next[8:], version+1)
	binary.LittleEndian.PutUint32(next[12:], checksum(next[:12]))
	kept := readGolden(t, "example-v2.bundle", next)
	if _, err := Open(kept); !errors.Is(err, ErrFormatTooNew) || errors.Is(err, ErrDamaged) {
		t.Errorf("Open(version 2) gives %v, want ErrFormatTooNew", err)
	}
	if _, err := Read(bytes.NewReader(kept), 1<<20); !errors.Is(err, ErrFormatTooNew) {
		t.Errorf("Read(version 2) gives %v, want ErrFormatTooNew", err)
	}
	next[8]++ // version 3, with the checksum of 2
	if _, err := Open(next); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open(damaged version) gives %v, want ErrDamaged", err)
	}
}

// The worked example of docs/FORMAT.md is the golden bundle.
func TestFormat_WorkedExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(doc), "```example bundle\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("docs/FORMAT.md has no example of a bundle")
	}
	var got []byte
	for line := range strings.Lines(text) {
		hexes, _, _ := strings.Cut(line, "   ")
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(hexes), " ", ""))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		got = append(got, b...)
	}
	if want := readGolden(t, "example-v1.bundle", exampleModel(t).bytes(t)); !bytes.Equal(got, want) {
		t.Errorf("the worked example is\n%x, want\n%x", got, want)
	}
	b := mustOpen(t, got)
	for key, want := range map[string]bool{"a": true, "b": true, "cd": true, "cda": false, "key-0": true, "key-1": true, "key-": false, "key-00": false} {
		if b.MayContain([]byte(key)) != want {
			t.Errorf("the example answers %v for %q", !want, key)
		}
	}
}
