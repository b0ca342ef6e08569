package damage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// put makes data the bytes of a file of the store.
func put(mem *vfs.Mem, name, data string) error {
	f, err := mem.Create(harness.Dir + "/" + name)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(data)); err != nil {
		return err
	}
	return f.Close()
}

// edit changes the bytes of a file.
func (b *lostStore) edit(file, what string, change func(data []byte) []byte) loss {
	was := b.files[file]
	is := string(change([]byte(was)))
	return loss{
		what: what, files: []string{file}, harmless: b.harmless(file, was, is),
		apply: func(mem *vfs.Mem) error { return put(mem, file, is) },
	}
}

// harmless reports whether nobody needs to notice: the room behind a log's header is nobody's, and
// what is behind the end of a log or of a manifest. Where the store was not closed, their ends may
// be torn.
func (b *lostStore) harmless(file, was, is string) bool {
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
	return b.torn
}

func (b *lostStore) flip(file string, at int, mask byte) loss {
	return b.edit(file, fmt.Sprintf("byte %d ^ %#x", at, mask), func(data []byte) []byte {
		data[at] ^= mask
		return data
	})
}

func (b *lostStore) cut(file string, size int) loss {
	return b.edit(file, fmt.Sprintf("cut to %d", size), func(data []byte) []byte { return data[:size] })
}

func (b *lostStore) zero(file string, at, n int) loss {
	return b.edit(file, fmt.Sprintf("%d zeros at %d", n, at), func(data []byte) []byte {
		clear(data[min(at, len(data)):min(at+n, len(data))])
		return data
	})
}

func (b *lostStore) remove(file string) loss {
	return loss{what: "removed", files: []string{file}, harmless: b.unused[file],
		apply: func(mem *vfs.Mem) error { return mem.Remove(harness.Dir + "/" + file) }}
}

func (b *lostStore) swap(file, other string) loss {
	return loss{
		what: "swapped", files: []string{file, other}, harmless: b.unused[file] && b.unused[other],
		apply: func(mem *vfs.Mem) error {
			if err := put(mem, file, b.files[other]); err != nil {
				return err
			}
			return put(mem, other, b.files[file])
		},
	}
}

func (b *lostStore) foreign(file string, other *lostStore, from string) loss {
	d := b.edit(file, "replaced by "+from+" of another store", func([]byte) []byte { return []byte(other.files[from]) })
	d.files = append(d.files, "CURRENT", from)
	return d
}

// both does two damages, one after the other.
func both(a, b loss) loss {
	return loss{
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

// losses returns what a sweep does to the store, at each step-th byte of it.
func (b *lostStore) losses(r *rand.Rand, other *lostStore, step int) []loss {
	var all []loss
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
