package repair

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

func writeFile(mem *vfs.Mem, name, data string) error {
	f, err := mem.Create("db/" + name)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(data)); err != nil {
		return err
	}
	return f.Close()
}

// edit changes the bytes of a file.
func (b *built) edit(file, what string, change func(data []byte) []byte) damage {
	was := b.files[file]
	is := string(change([]byte(was)))
	return damage{
		what: what, files: []string{file}, harmless: b.harmless(file, was, is),
		apply: func(mem *vfs.Mem) error { return writeFile(mem, file, is) },
	}
}

// harmless tells whether nobody needs to notice: the room behind a log's header
// is nobody's, and what is behind the end of a log or of a manifest. Where the
// store was not closed, their ends may be torn.
func (b *built) harmless(file, was, is string) bool {
	if is == was || b.unused[file] {
		return true
	}
	if strings.HasSuffix(file, ".sst") || strings.HasSuffix(file, ".flt") || file == "CURRENT" {
		return false
	}
	if strings.HasPrefix(is, was) {
		return true
	}
	if strings.HasSuffix(file, ".wal") && len(is) == len(was) && len(is) > 4096 && is[:68] == was[:68] && is[4096:] == was[4096:] {
		return true
	}
	return b.torn(file)
}

// torn tells whether a crash may have torn the file's end.
func (b *built) torn(file string) bool {
	return !slices.Contains([]string{"closed", "many logs", "small", "versions", "one life", "filters beside tables"}, b.name)
}

func (b *built) flip(file string, at int, mask byte) damage {
	return b.edit(file, fmt.Sprintf("byte %d ^ %#x", at, mask), func(data []byte) []byte {
		data[at] ^= mask
		return data
	})
}

func (b *built) cut(file string, size int) damage {
	return b.edit(file, fmt.Sprintf("cut to %d", size), func(data []byte) []byte { return data[:size] })
}

func (b *built) zero(file string, at, n int) damage {
	return b.edit(file, fmt.Sprintf("%d zeros at %d", n, at), func(data []byte) []byte {
		clear(data[min(at, len(data)):min(at+n, len(data))])
		return data
	})
}

func (b *built) remove(file string) damage {
	return damage{what: "removed", files: []string{file}, harmless: b.unused[file],
		apply: func(mem *vfs.Mem) error { return mem.Remove("db/" + file) }}
}

func (b *built) swap(file, other string) damage {
	return damage{
		what: "swapped", files: []string{file, other}, harmless: b.unused[file] && b.unused[other],
		apply: func(mem *vfs.Mem) error {
			if err := writeFile(mem, file, b.files[other]); err != nil {
				return err
			}
			return writeFile(mem, other, b.files[file])
		},
	}
}

func (b *built) foreign(file string, other *built, from string) damage {
	d := b.edit(file, "replaced by "+from+" of another store", func([]byte) []byte { return []byte(other.files[from]) })
	d.files = append(d.files, "CURRENT", from)
	return d
}

// both does two damages, one after the other.
func both(a, b damage) damage {
	return damage{
		what: a.String() + "; " + b.String(), files: append(slices.Clone(a.files), b.files...), harmless: true, twice: true,
		apply: func(mem *vfs.Mem) error {
			if err := a.apply(mem); err != nil {
				return err
			}
			_ = b.apply(mem) // it may be about a file that is gone
			return nil
		},
	}
}

// damages returns what a sweep does to the store, each step-th byte of it.
func (b *built) damages(r *rand.Rand, other *built, step int) []damage {
	var all []damage
	names := slices.Sorted(maps.Keys(b.files))
	for _, file := range names {
		size, step := len(strings.TrimRight(b.files[file], "\x00")), step
		if strings.HasPrefix(file, "MANIFEST") {
			step = step/5 + 1 // it is short, and each edit is another case
		}
		for at := r.IntN(step); at < size; at += step {
			all = append(all, b.flip(file, at, 1<<r.IntN(8)))
		}
		for at := r.IntN(step); at < size; at += 4 * step {
			all = append(all, b.cut(file, at), b.zero(file, at, 1+r.IntN(600)))
		}
		all = append(all, b.cut(file, 0), b.remove(file),
			b.edit(file, "longer", func(data []byte) []byte { return append(data, "\x01\x02\x03"...) }))
		for _, to := range names {
			if to > file && path.Ext(to) == path.Ext(file) && file != "LOCK" && to != "LOCK" {
				all = append(all, b.swap(file, to))
			}
		}
		for _, from := range slices.Sorted(maps.Keys(other.files)) {
			if file != "LOCK" && from != "LOCK" && path.Ext(from) == path.Ext(file) && r.IntN(4) == 0 {
				all = append(all, b.foreign(file, other, from))
			}
		}
	}
	return all
}

func TestBuilt_Shapes(t *testing.T) {
	seed := testenv.Seed(t)
	for _, shape := range someShapes(seed) {
		b := build(t, shape, seed)
		t.Logf("%s: %d commits, safe %d", shape, len(b.states)-1, b.safe)
		for _, f := range slices.Sorted(maps.Keys(b.files)) {
			t.Logf("   %s %d", f, len(b.files[f]))
		}
		out, err := b.try(damage{what: "nothing", apply: func(*vfs.Mem) error { return nil }})
		if err != nil || out != "whole" {
			t.Errorf("%s: %s, %v", shape, out, err)
		}
	}
}
