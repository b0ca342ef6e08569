package damage

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/shaledb/shale/vfs"
)

// edit changes the bytes of a file.
func (b *lostStore) edit(file string, c change) loss {
	was := b.files[file]
	is := string(c.to([]byte(was)))
	return loss{
		what: c.what, files: []string{file}, harmless: b.harmless(file, was, is),
		apply: func(mem *vfs.Mem) error { return writeFile(mem, file, is) },
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

func (b *lostStore) remove(file string) loss {
	return loss{what: "removed", files: []string{file}, harmless: b.unused[file], apply: removed(file)}
}

func (b *lostStore) swap(file, other string) loss {
	return loss{what: "swapped", files: []string{file, other}, harmless: b.unused[file] && b.unused[other], apply: swapped(b.files, file, other)}
}

func (b *lostStore) foreign(file string, other *lostStore, from string) loss {
	d := b.edit(file, replacedBy(from, other.files))
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
			all = append(all, b.edit(file, flipped(at, 1<<r.IntN(8))))
		}
		for at := r.IntN(step); at < size; at += 4 * step {
			all = append(all, b.edit(file, cut(at)), b.edit(file, zeroed(at, 1+r.IntN(600))))
		}
		all = append(all, b.edit(file, cut(0)), b.remove(file), b.edit(file, longer(3, 1)))
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
