package damage

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// patchAll applies edits of eight bytes each, as a fuzzer may like them: to which
// file, what, where, how far, and with which byte.
func patchAll(files map[string]string, names []string, edits []byte) {
	for ; len(edits) >= 8; edits = edits[8:] {
		name := names[int(edits[0])%len(names)]
		data, there := files[name]
		at := int(binary.LittleEndian.Uint16(edits[2:]))
		n := int(binary.LittleEndian.Uint16(edits[4:]))
		if !there || len(data) == 0 {
			continue
		}
		at %= len(data)
		n = min(n, len(data)-at)
		b := []byte(data)
		switch edits[1] % 6 {
		case 0:
			b[at] ^= edits[6]
		case 1:
			clear(b[at : at+n])
		case 2:
			b = b[:at]
		case 3:
			b = slices.Insert(b, at, slices.Clone(b[at:at+n])...)
		case 4: // a part of another file in its place
			other := files[names[int(edits[6])%len(names)]]
			copy(b[at:at+n], other[min(at, len(other)):])
		case 5:
			delete(files, name)
			continue
		}
		files[name] = string(b)
	}
}

// FuzzRepairDir edits the files of a store, several at once. What is saved is right, what
// is not saved is reported, and the damaged store stays as it is.
func FuzzRepairDir(f *testing.F) {
	b := newLostStore(f, "small", 1)
	names := slices.Sorted(maps.Keys(b.files))
	for i := range names {
		if testing.Short() && i%4 > 0 {
			continue
		}
		for _, edit := range []string{
			"\x00\x00\x10\x00\x01\x00\xff\x00", "\x00\x01\x00\x01\x00\x02\x00\x00", "\x00\x02\x80\x00\x00\x00\x00\x00",
			"\x00\x03\x08\x00\x10\x00\x00\x00", "\x00\x04\x00\x00\x00\x10\x01\x00", "\x00\x05\x00\x00\x00\x00\x00\x00",
		} {
			data := []byte(edit)
			data[0] = byte(i)
			f.Add(data)
			if data[1] == 0 {
				f.Add(append(slices.Clone(data), byte(i+1), 1+byte(i%5), 0x40, 0, 0x40, 0, 1, 0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, edits []byte) {
		files := maps.Clone(b.files)
		patchAll(files, names, edits[:min(len(edits), 8*8)])
		var err error
		storeLimit.Once(t, 0, "Check or Run", func() {
			_, err = b.try(loss{what: "fuzzed", harmless: true, twice: true, apply: func(mem *vfs.Mem) error {
				for _, name := range names {
					if data, there := files[name]; !there {
						if err := mem.Remove(harness.Dir + "/" + name); err != nil {
							return err
						}
					} else if err := writeFile(mem, name, data); err != nil {
						return err
					}
				}
				return nil
			}})
		})
		if err != nil {
			t.Error(err)
		}
	})
}
